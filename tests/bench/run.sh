#!/usr/bin/env bash
# Figures for getgpu and cudawrap against a minimal C client on the same library, a shell wrapper and, with NVISEL=/path/to/nvisel, nvitop's chooser.
# Wall clock by ratios in one run; instructions by callgrind, all processes of a call together, repeatable on any machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
rounds=${ROUNDS:-200}
# shellcheck source=tests/bench/room.sh
. "$here/room.sh"
# shellcheck disable=SC2016 # the script expands it
printf '#!/bin/sh\nCUDA_VISIBLE_DEVICES=$(client) exec "$@"\n' >"$room/shell-wrapper"
cp /bin/true "$room/CUDAWRAP_true"
ln -s "$bin/cudawrap" "$room/true"
chmod +x "$room/shell-wrapper"

time_all() {
    "$bin/getgpu-bench" "$1" "C client=client" "getgpu --no-reserve=getgpu --no-reserve" "getgpu (with its reservation)=getgpu --for 0"
    [ -z "${NVISEL:-}" ] || "$bin/getgpu-bench" 10 "C client=client" "nvisel=$NVISEL --count 1" 2>/dev/null
    echo
    "$bin/getgpu-bench" "$1" "/bin/true=/bin/true" "shell wrapper, C client=shell-wrapper /bin/true" \
        "cudawrap -- /bin/true=cudawrap -- /bin/true" "linked true=$room/true"
    uuid=$(getgpu --no-reserve)
    CUDA_VISIBLE_DEVICES=$uuid "$bin/getgpu-bench" "$1" "/bin/true, device named=/bin/true" "linked true, device named=$room/true"
}

echo "== wall clock, library without latency, $rounds rounds"
time_all "$rounds"
echo
echo "== wall clock, init 10 ms, 29 ms per GPU touched, 50 us per call, 40 rounds"
echo 'latency = { init_ms = 10, attach_ms = 29, call_us = 50 }' >"$room/node/faults.toml"
time_all 40
rm "$room/node/faults.toml"

if command -v valgrind >/dev/null; then
    echo
    echo "== instructions (callgrind, all processes of the call)"
    count() { printf '%-34s %12d\n' "$1" "$(instructions "${@:2}")"; }
    count "C client" "$room/client"
    count "getgpu --no-reserve" "$bin/getgpu" --no-reserve
    count "getgpu --list" "$bin/getgpu" --list
    # Up to the exec: callgrind counts a process only if it ends as itself, so the program is one that cannot be executed.
    count "cudawrap -- PROGRAM" "$bin/cudawrap" -- /
    CUDA_VISIBLE_DEVICES=$uuid count "cudawrap -- PROGRAM, device named" "$bin/cudawrap" -- /
else
    echo "SKIPPED: instruction counts need valgrind"
fi
