#!/usr/bin/env bash
# What --bind gains or costs: OpenMP programs side by side on GPUs that are near to the same CPUs, with it and without.
# Usage: bind.sh DIRECTORY-OF-PROGRAMS [PROGRAMS-AT-A-TIME...]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
shift
command -v gcc >/dev/null || { echo 'SKIPPED: no gcc: --bind is not measured'; exit 0; }
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-bind.XXXXXX")
trap 'rm -rf "$room"' EXIT
mkdir -p "$room"/{lib,lock,node/running}
gcc -O2 -fopenmp -o "$room/work" "$here/openmp.c" 2>/dev/null || { echo 'SKIPPED: gcc has no OpenMP: --bind is not measured'; exit 0; }
cpus=$(nproc)
printf 'driver = "570.133.20"\n\n[[gpu]]\nmodel = "H200"\ncount = 8\ncpus = "0-%d"\n' $((cpus - 1)) >"$room/node/node.toml"
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
: >"$room/config.toml"
unset CUDA_VISIBLE_DEVICES
export PATH="$bin:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node"
export GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml" HOME="$room"

# Seconds until `count` programs that start together have exited.
together() {
    local count=$1 began ended
    shift
    began=$(date +%s.%N)
    for _ in $(seq "$count"); do "$@" "$room/work" & done
    wait
    ended=$(date +%s.%N)
    awk -v b="$began" -v e="$ended" 'BEGIN { printf "%.2f", e - b }'
}

median() { sort -n | sed -n 3p; }

echo "OpenMP programs side by side on $cpus CPUs, seconds until all have exited, medians of 5:"
for count in "${@:-1 2 3 4}"; do
    for n in $count; do
        plain=$(for _ in 1 2 3 4 5; do together "$n" cudawrap --; echo; done | median)
        bound=$(for _ in 1 2 3 4 5; do together "$n" cudawrap --bind --; echo; done | median)
        echo "  $n programs: without --bind $plain, with it $bound"
    done
done
