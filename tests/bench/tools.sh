#!/usr/bin/env bash
# Other people's programs that bench measures beside ours, from PyPI into a virtual environment: tests/bench/tools.sh DIRECTORY
# Made once; without Python or the network bench does without them and says so.
set -euo pipefail

directory=$1
wanted=(nvitop==1.7.2 gpustat==1.1.1)
[ ! -x "$directory/bin/nvisel" ] || exit 0
if ! { python3 -m venv "$directory" && "$directory/bin/pip" -q --disable-pip-version-check install "${wanted[@]}"; } >/dev/null 2>&1; then
    rm -rf "$directory"
    echo "SKIPPED: ${wanted[*]} cannot be installed here: bench goes without them"
fi
