#!/usr/bin/env bash
# Figures for getgpu and cudawrap against what else could do their work: tests/bench/run.sh DIRECTORY OF THE PROGRAMS [DIRECTORY OF OTHER TOOLS]
# Wall clock by ratios in one run, all in turn; instructions by callgrind, all processes of a call together, repeatable on any machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
others=
[ ! -d "${2-}" ] || others=$(cd "$2" && pwd)
rounds=${ROUNDS:-200}
# shellcheck source=tests/bench/room.sh
. "$here/room.sh"
# shellcheck disable=SC2016 # the script expands it
printf '#!/bin/sh\nCUDA_VISIBLE_DEVICES=$(client) exec "$@"\n' >"$room/shell-wrapper"
# The interpreter itself, not a script that looks for it.
python=$(python3 -c 'import sys; print(sys.executable)')
printf 'import os\nos.execv("/bin/true", ["true"])\n' >"$room/wrapper.py"
cp /bin/true "$room/CUDAWRAP_true"
ln -s "$bin/cudawrap" "$room/true"
chmod +x "$room/shell-wrapper"

race() { "$bin/getgpu-bench" "$@"; echo; }
picks() {
    echo "-- a pick"
    race "$1" "C client=client" "getgpu --no-reserve=getgpu --no-reserve" "getgpu (with its reservation)=getgpu --for 0"
    slow=("python3 pick by a listing=$python $here/pick.py")
    [ ! -x "$others/nvisel" ] || slow+=("nvisel=$others/nvisel --count 1" "gpustat (lists, cannot pick)=$others/gpustat --json")
    race 10 "C client=client" "getgpu=getgpu --for 0" "${slow[@]}"
    echo "-- a listing of 56 devices"
    race $(($1 / 2)) "C scan=client all" "getgpu --list=getgpu --list" "getgpu --json=getgpu --list --json"
}
starts() {
    echo "-- a program's start"
    race "$1" "/bin/true=/bin/true" "env true=env /bin/true" "C client that executes true=client -- /bin/true" "sh wrapper, C client=shell-wrapper /bin/true" "cudawrap -- /bin/true=cudawrap -- /bin/true" "linked true=$room/true"
    echo "-- a program's start, the device named"
    uuid=$(getgpu --no-reserve)
    CUDA_VISIBLE_DEVICES=$uuid race "$1" "/bin/true=/bin/true" "env true=env /bin/true" "sh -c true=sh -c /bin/true" \
        "linked true=$room/true" "python3 that executes true=$python $room/wrapper.py"
}

echo "== wall clock, library without latency, $rounds rounds"
picks "$rounds"
starts "$rounds"
echo "== wall clock, init 10 ms, 29 ms per GPU touched, 50 us per call, 40 rounds"
echo 'latency = { init_ms = 10, attach_ms = 29, call_us = 50 }' >"$room/node/faults.toml"
picks 40
starts 40
rm "$room/node/faults.toml"

if command -v valgrind >/dev/null; then
    echo "== instructions (callgrind, all processes of the call)"
    count() { printf '%-34s %12d\n' "$1" "$(instructions "${@:2}")"; }
    count "C client" "$room/client"
    count "C scan" "$room/client" all
    count "getgpu --no-reserve" "$bin/getgpu" --no-reserve
    count "getgpu --list" "$bin/getgpu" --list
    # Up to the exec: callgrind counts a process only if it ends as itself, so the program is one that cannot be executed.
    count "cudawrap -- PROGRAM" "$bin/cudawrap" -- /
    ln -s "$bin/cudawrap" "$room/none"
    ln -s / "$room/CUDAWRAP_none"
    CUDA_VISIBLE_DEVICES=$uuid count "linked program, device named" "$room/none"
else
    echo "SKIPPED: instruction counts need valgrind"
fi
