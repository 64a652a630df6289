#!/usr/bin/env python3
"""Makes docs/watch.svg, the animated picture in the README, from a real run of `getgpu --watch`.

docs/watch-picture.py [DIRECTORY OF THE PROGRAMS]: on a simulated node, while programs come and go.
Each frame is a screen as the terminal showed it.
"""
import html
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

HERE = Path(__file__).resolve().parent
BIN = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "../target/debug").resolve()
COLUMNS, ROWS, SECONDS = 96, 13, 2.2
STILL = 4
PAPER, INK = "#16181d", "#d7dae0"
COLOURS = {"32": "#8fce8f", "33": "#e6c07b", "36": "#7fd0d8", "31": "#e88388", "35": "#c8a0e0", "2": "#737a86"}


def node(room):
    """The environment of a simulated node with one A100 in seven MIG devices."""
    for name in ("lib", "run", "home", "node/running"):
        (room / name).mkdir(parents=True)
    shutil.copy(BIN / "libsim_nvml.so", room / "lib/libnvidia-ml.so.1")
    shutil.copy(HERE / "../tests/sim/nodes/a100x1.toml", room / "node/node.toml")
    (room / "config.toml").write_text('max_hold = "8h"\n')
    kept = {name: value for name, value in os.environ.items() if name in ("USER", "LOGNAME")}
    return kept | {
        "PATH": f"{BIN}:/usr/bin:/bin", "LD_LIBRARY_PATH": str(room / "lib"), "SIM_NODE": str(room / "node"), "HOME": str(room / "home"),
        "GETGPU_LOCK": str(room / "run/lock"), "GETGPU_CONFIG": str(room / "config.toml"), "TERM": "xterm", "LC_ALL": "C.UTF-8",
    }


class Screen:
    """As much of a terminal as --watch uses: places, colours, clearing behind the cursor."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = {}, 0, 0, ""

    def feed(self, text):
        for escape, code, plain in re.findall(r"(\x1b\[([0-9;?]*[A-Za-z]))|([^\x1b])", text):
            if plain in ("\r", "\n"):
                continue
            if plain:
                self.lines.setdefault(self.row, {})[self.column] = (plain, self.style)
                self.column += 1
            elif code.endswith("H"):
                row, column = (code[:-1].split(";") + ["1"])[:2]
                self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
            elif code.endswith("m"):
                self.style = "" if code in ("0m", "m") else code[:-1]
            elif code.endswith("K"):
                line = self.lines.get(self.row, {})
                self.lines[self.row] = {at: cell for at, cell in line.items() if at < self.column}
            elif code.endswith("J"):
                self.lines = {row: line for row, line in self.lines.items() if row < self.row or (row == self.row and line)}

    def svg(self):
        out = []
        for row, line in sorted(self.lines.items()):
            runs, at = [], 0
            for column in range(max(line, default=-1) + 1):
                letter, style = line.get(column, (" ", ""))
                if not runs or runs[-1][0] != style:
                    runs.append([style, ""])
                runs[-1][1] += letter
            spans = ""
            for style, letters in runs:
                look = f' fill="{COLOURS[style]}"' if style in COLOURS else ' font-weight="bold" fill="#8ec7ff"' if style == "1" else ""
                spans += f"<tspan{look}>{html.escape(letters)}</tspan>"
            out.append(f'<text x="16" y="{26 + 17 * row}" xml:space="preserve">{spans}</text>')
        return "\n".join(out)


def main():
    room = Path(tempfile.mkdtemp(prefix="getgpu-picture."))
    room.chmod(0o755)
    environment = node(room)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("getgpu", ["getgpu", "--watch=0.4"], environment)
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen, frames, programs = Screen(), [], []

    def run(*words):
        programs.append(subprocess.Popen(words, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def frame():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                screen.feed(os.read(terminal, 65536).decode(errors="replace"))
        frames.append(screen.svg())

    def program(memory, *options):
        run("cudawrap", *options, "--", "sim-cuda", "--memory", str(memory << 20), "--run", "forever")

    frame()
    program(3100)
    frame()
    program(900, "--share", "1/2")
    program(1200, "--share", "1/2")
    frame()
    run("sh", "-c", "getgpu --hold --tag notebook >/dev/null; exec sleep 100")
    program(4200)
    frame()
    program(2000)
    program(700)
    frame()
    run("cudawrap", "--wait", "--", "sim-cuda", "--run", "forever")
    frame()
    programs[0].kill()
    frame()
    os.write(terminal, b"q")
    for each in programs:
        each.kill()
    os.waitpid(pid, 0)
    shutil.rmtree(room)
    draw(frames)


def draw(frames):
    width, height, share = COLUMNS * 7.9 + 32, ROWS * 17 + 24, 100 / len(frames)
    host = os.uname().nodename
    with open(HERE / "watch.svg", "w", encoding="utf-8") as out:
        print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="ui-monospace,monospace" font-size="13" fill="{INK}">', file=out)
        print("<title>getgpu --watch on a simulated node while programs come and go</title>", file=out)
        print(f"<style>g{{visibility:hidden;animation:show {len(frames) * SECONDS:.1f}s step-end infinite}}", file=out)
        print(f"@keyframes show{{0%{{visibility:visible}}{share:.2f}%{{visibility:hidden}}}}", file=out)
        # Where animations do not run, one frame is seen.
        print("g.still{visibility:visible}</style>", file=out)
        print(f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>', file=out)
        for place, text in enumerate(frames):
            delay = (place - len(frames)) * SECONDS
            still = ' class="still"' if place == STILL else ""
            print(f'<g{still} style="animation-delay:{delay:.1f}s">\n{text.replace(host, "node1")}\n</g>', file=out)
        print("</svg>", file=out)


main()
