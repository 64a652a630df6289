#!/bin/sh
# Makes docs/demo.svg, the picture in the README, from a real run of the demo: docs/picture.sh [DIRECTORY OF THE PROGRAMS]
# What is in it is what the programs printed; only long runs of lines are cut, and the place of the demo is shortened.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$here/../target/debug}

"$here/../tests/demo/run.sh" "$bin" 2>&1 | sed 's|/tmp/getgpu-demo\.[A-Za-z0-9]*||g' | awk '
    # The bold headings of the demo begin a part; of each part the first lines are shown.
    /^$/ { next }
    /\033\[1m/ { gsub(/\033\[[0-9]*m/, ""); lines[++n] = "#" $0; shown = 0; next }
    { if (++shown <= 6) lines[++n] = " " $0; else if (shown == 7) lines[++n] = "  ..." }
    END {
        for (i = 1; i <= n; i++) if (length(lines[i]) > longest) longest = length(lines[i])
        width = longest * 7.9 + 32; height = n * 17 + 24
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"ui-monospace,monospace\" font-size=\"13\">\n", width, height
        printf "<title>getgpu, cudawrap and create-cudawrap on a simulated node with 8 GPUs and 56 MIG devices</title>\n"
        printf "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#16181d\"/>\n"
        for (i = 1; i <= n; i++) {
            text = substr(lines[i], 2)
            gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
            heading = substr(lines[i], 1, 1) == "#"
            colour = heading ? "#8ec7ff" : (text ~ /free/ ? "#8fce8f" : (text ~ /leased|shared/ ? "#e6c07b" : "#d7dae0"))
            printf "<text x=\"16\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\"%s>%s</text>\n", 24 + (i - 1) * 17, colour, heading ? " font-weight=\"bold\"" : "", text
        }
        print "</svg>"
    }' >"$here/demo.svg.new"
mv "$here/demo.svg.new" "$here/demo.svg"
