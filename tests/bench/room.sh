# A simulated node in a room of its own, the C client beside it, and how instructions are counted. Sourced by run.sh and budget.sh, which set
# `here` (this directory) and `bin` (the programs).
# shellcheck shell=bash disable=SC2154
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-bench.XXXXXX")
mkdir -p "$room"/{lib,lock,node/running}
cp "$here/../sim/nodes/a100x8.toml" "$room/node/node.toml"
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
: >"$room/config.toml"
unset CUDA_VISIBLE_DEVICES
export PATH="$bin:$room:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node" HOME="$room"
export GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml"
trap 'getgpu --release-all -q 2>/dev/null || true; rm -rf "$room"' EXIT
cc -O2 -o "$room/client" "$here/client.c" -ldl

# Instructions of a call, all its processes together (callgrind).
instructions() {
    rm -f "$room"/callgrind.*
    valgrind -q --tool=callgrind --trace-children=yes --callgrind-out-file="$room/callgrind.%p" "$@" >/dev/null 2>&1 || true
    grep -h '^totals:' "$room"/callgrind.* | awk '{s += $2} END {print s}'
}
