#!/usr/bin/env python3
"""Makes docs/soak.svg, the figures of a soak over time, from the record that `make soak` writes.

docs/soak-picture.py RECORD.csv [PICTURE.svg]: one panel for each figure; a coloured band for each disturbance; lines are what was seen
every five seconds, dots the quiet moments, at which nothing but the residents may be left.
"""
import csv
import html
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 1000, 92, 92, 16, 62, 30
PAPER, INK, FAINT, LINE, DOT = "#16181d", "#d7dae0", "#737a86", "#6d8fb5", "#e6c07b"
BANDS = {
    "calm": "#16181d", "clock": "#2b3a55", "leap": "#33305a", "stop": "#4a3333", "memory": "#4a2f45", "files": "#2e4a3a",
    "space": "#3d4a2e", "processes": "#2e454a", "foreign": "#54452a", "kills": "#5a2a2a",
}
PANELS = [
    ("processes", "processes", 1), ("descriptors", "open descriptors", 1), ("locks", "ranges locked", 1),
    ("rss_kib", "resident memory, MiB", 1024), ("anonymous_kib", "of it anonymous, MiB", 1024), ("contexts", "CUDA contexts", 1),
]


def ceiling(name, values):
    """The stranger's 10,000 ranges would flatten the others: that panel ends above what ours lock."""
    values = sorted(value for value in values if name != "locks" or value < 1000)
    return max(values[-1], 1) * 1.08 if values else 1


def bands(rows):
    """Stretches of one disturbance, as (name, from, to)."""
    out = []
    for row in rows:
        if out and out[-1][0] == row["disturbance"]:
            out[-1][2] = row["seconds"]
        else:
            out.append([row["disturbance"], out[-1][2] if out else 0.0, row["seconds"]])
    return out


def main():
    record = Path(sys.argv[1])
    picture = Path(sys.argv[2] if len(sys.argv) > 2 else HERE / "soak.svg")
    with record.open(encoding="utf-8") as file:
        rows = [{name: text if name == "disturbance" else float(text) for name, text in row.items()} for row in csv.DictReader(file)]
    end = rows[-1]["seconds"]
    height = TOP + len(PANELS) * (PANEL + GAP) + 8

    def at(seconds):
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end

    quiet = [row for row in rows if row["quiet"]]
    title = f"{end / 60:.0f} minutes, {rows[-1]['launches']:,.0f} launches, {rows[-1]['collisions']:.0f} collisions, {len(quiet)} quiet moments"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="ui-monospace,monospace" font-size="12" fill="{INK}">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
        f'<text x="{LEFT}" y="22" font-size="13">{html.escape(title)}</text>',
        '<defs><g id="bands">',
    ]
    for kind, begin, stop in bands(rows):
        if kind != "calm":
            out.append(f'<path d="M{at(begin):.1f} 0H{at(stop):.1f}V{PANEL}H{at(begin):.1f}z" fill="{BANDS.get(kind, PAPER)}"/>')
    out.append("</g></defs>")
    place = LEFT
    for name, colour in BANDS.items():
        out.append(f'<rect x="{place}" y="34" width="11" height="11" fill="{colour}" stroke="{FAINT}" stroke-width="0.5"/>')
        out.append(f'<text x="{place + 16}" y="44">{name}</text>')
        place += 32 + 7.4 * len(name)
    for number, (name, text, unit) in enumerate(PANELS):
        top = TOP + number * (PANEL + GAP) + 10
        most = ceiling(name, [row[name] / unit for row in rows])

        def up(value, top=top, most=most):
            return top + PANEL - PANEL * min(value, most) / most

        out.append(f'<use href="#bands" y="{top}"/>')
        out.append(f'<text x="{LEFT}" y="{top - 4}" fill="{FAINT}">{text}</text>')
        for part in (0, 0.5, 1):
            mark = most / 1.08 * part
            out.append(f'<text x="{LEFT - 8}" y="{up(mark) + 4:.1f}" text-anchor="end" fill="{FAINT}">{mark:.{1 if unit > 1 else 0}f}</text>')
        line = " ".join(f"{at(row['seconds']):.1f},{up(row[name] / unit):.1f}" for row in rows)
        out.append(f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="0.8"/>')
        dots = "".join(f"M{at(row['seconds']):.1f} {up(row[name] / unit):.1f}h0" for row in quiet)
        out.append(f'<path d="{dots}" stroke="{DOT}" stroke-width="3.4" stroke-linecap="round"/>')
    step = next(step for step in (1, 2, 5, 10, 20, 30, 60, 120) if end / 60 / step <= 14 or step == 120)
    for minute in range(0, int(end / 60) + 1, step):
        out.append(f'<text x="{at(minute * 60):.1f}" y="{height - 8}" text-anchor="middle" fill="{FAINT}">{minute} min</text>')
    out.append("</svg>")
    picture.write_text("\n".join(out) + "\n", encoding="utf-8")


main()
