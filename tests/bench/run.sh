#!/usr/bin/env bash
# Figures for getgpu and cudawrap against a minimal C client on the same library, a shell wrapper and, with NVISEL=/path/to/nvisel, nvitop's chooser.
# Wall clock by ratios in one run; instructions by callgrind, all processes of a call together, repeatable on any machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
rounds=${ROUNDS:-200}
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-bench.XXXXXX")
trap 'getgpu --release-all -q 2>/dev/null || true; rm -rf "$room"' EXIT

mkdir -p "$room"/{lib,lock,node/running}
cp "$here/../sim/nodes/a100x8.toml" "$room/node/node.toml"
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
: >"$room/config.toml"
unset CUDA_VISIBLE_DEVICES
export PATH="$bin:$room:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node" HOME="$room"
export GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml"

cc -O2 -o "$room/client" "$here/client.c" -ldl
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
    count() {
        rm -f "$room"/callgrind.*
        valgrind -q --tool=callgrind --trace-children=yes --callgrind-out-file="$room/callgrind.%p" "${@:2}" >/dev/null 2>&1 || true
        total=$(grep -h '^totals:' "$room"/callgrind.* | awk '{s += $2} END {print s}')
        printf '%-34s %12d\n' "$1" "$total"
    }
    count "C client" "$room/client"
    count "getgpu --no-reserve" "$bin/getgpu" --no-reserve
    count "getgpu --list" "$bin/getgpu" --list
    # Up to the exec: callgrind counts a process only if it ends as itself, so the program is one that cannot be executed.
    count "cudawrap -- PROGRAM" "$bin/cudawrap" -- /
    CUDA_VISIBLE_DEVICES=$uuid count "cudawrap -- PROGRAM, device named" "$bin/cudawrap" -- /
else
    echo "SKIPPED: instruction counts need valgrind"
fi
