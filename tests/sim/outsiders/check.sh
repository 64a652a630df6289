#!/bin/sh
# Holds the simulated node against programs and headers that know nothing of it.
# Usage: check.sh DIR (a folder to work in). Status 0: all agree; 77: something needed is missing; else a difference.
set -eu

dir=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

skip() {
    echo "SKIPPED: $1"
    exit 77
}

command -v cc >/dev/null || skip "no C compiler"
command -v python3 >/dev/null || skip "no python3"
command -v cargo >/dev/null || skip "no cargo"
python3 -c 'import sys, tomllib, venv' 2>/dev/null || skip "python3 is older than 3.11 or has no venv"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ -x "$dir/venv/bin/pip" ] || python3 -m venv "$dir/venv" >"$dir/venv.log" 2>&1 || skip "cannot make a venv: $(tail -n 1 "$dir/venv.log")"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nvidia-ml-py nvidia-nvml-dev-cu12 nvitop gpustat \
    >"$dir/pip.log" 2>&1 || skip "pip cannot install: $(tail -n 1 "$dir/pip.log")"
header=$(find "$dir/venv" -name nvml.h | head -n 1)
[ -n "$header" ] || skip "nvidia-nvml-dev-cu12 has no nvml.h"

# A target folder of its own: what cargo builds for a part of the workspace differs from what it builds for all of it, and this may
# run while tests of the whole use theirs.
target=$dir/target
export CARGO_TARGET_DIR="$target"
(cd "$root" && cargo build -q -p sim-nvml -p sim-cuda && cargo build -q -p sim-nvml --example layouts)
mkdir -p "$dir/lib"
cp -f "$target/debug/libsim_nvml.so" "$dir/lib/libnvidia-ml.so.1"
export LD_LIBRARY_PATH="$dir/lib"
unset CUDA_VISIBLE_DEVICES SIM_CUDA

echo "layouts against $(basename "$header"):"
"$target/debug/examples/layouts" >"$dir/layouts.sim"
python3 "$here/layouts.py" <"$dir/layouts.sim" >"$dir/layouts.c"
cc -I "$(dirname "$header")" -o "$dir/layouts" "$dir/layouts.c"
"$dir/layouts" >"$dir/layouts.nvidia"
diff "$dir/layouts.sim" "$dir/layouts.nvidia"
sed 's/^/  /' "$dir/layouts.nvidia"

# A node folder from an inventory.
node() {
    rm -rf "$dir/node"
    mkdir -p "$dir/node/running"
    cp "$1" "$dir/node/node.toml"
    export SIM_NODE="$dir/node"
}

echo "nodes by nvidia-ml-py:"
for inventory in "$here"/../nodes/*.toml; do
    node "$inventory"
    printf '  %s: ' "$(basename "$inventory" .toml)"
    "$dir/venv/bin/python" "$here/enumerate.py"
done

echo "nvisel and gpustat, one device in use:"
node "$here/../nodes/a100x1.toml"
"$target/debug/sim-cuda" --run forever --ready "$dir/node/ready" >/dev/null &
program=$!
trap 'kill "$program" 2>/dev/null || true' EXIT
tries=0
until [ -e "$dir/node/ready" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 500 ] || { echo "the simulated program does not start"; exit 1; }
    sleep 0.02
done
read -r _ used pid <"$dir/node/ready"
chosen=$("$dir/venv/bin/nvisel" --min-free-memory 4600MiB 2>"$dir/nvisel.log") || { cat "$dir/nvisel.log"; exit 1; }
echo "  in use: $used"
echo "  nvisel: $chosen"
case $chosen in
    *"$used"* | "") echo "  nvisel chose the device in use, or none"; exit 1 ;;
    MIG-*) ;;
    *) echo "  nvisel chose no MIG device"; exit 1 ;;
esac
"$dir/venv/bin/gpustat" --json >"$dir/gpustat.json"
grep -q "\"pid\": $pid" "$dir/gpustat.json" || { echo "  gpustat does not show process $pid"; exit 1; }
echo "  gpustat: shows process $pid"
echo "all agree"
