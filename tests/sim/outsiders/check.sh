#!/bin/sh
# Holds the simulated node against NVIDIA's headers and Python binding, which know nothing of it.
# Usage: check.sh DIR PYTHON (a folder to work in; a Python with nvidia-ml-py, nvidia-nvml-dev-cu12 and nvidia-nvml-dev).
# Status 0: all agree; 77: something needed is missing; else a difference.
set -eu

dir=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

skip() {
    echo "SKIPPED: $1"
    exit 77
}

command -v cc >/dev/null || skip "no C compiler"
command -v cargo >/dev/null || skip "no cargo"
"$python" -c 'import sys, tomllib, pynvml' 2>/dev/null || skip "$python is older than 3.11 or has no nvidia-ml-py"
# Of CUDA 12.9, and the newest.
headers=$("$python" -c 'import glob, sysconfig; print(*glob.glob(sysconfig.get_path("purelib") + "/nvidia/**/nvml.h", recursive=True), sep="\n")')
[ "$(echo "$headers" | grep -c .)" -ge 2 ] || skip "nvidia-nvml-dev-cu12 and nvidia-nvml-dev are not both installed"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
# A target folder of its own: what cargo builds for a part of the workspace differs from what it builds for all of it, and this may
# run while tests of the whole use theirs.
target=$dir/target
export CARGO_TARGET_DIR="$target"
(cd "$root" && cargo build -q -p sim-nvml && cargo build -q -p sim-nvml --example layouts)
mkdir -p "$dir/lib"
cp -f "$target/debug/libsim_nvml.so" "$dir/lib/libnvidia-ml.so.1"
export LD_LIBRARY_PATH="$dir/lib"
unset CUDA_VISIBLE_DEVICES

"$target/debug/examples/layouts" >"$dir/layouts.all"
echo "$headers" | while IFS= read -r header; do
    version=$(sed -n 's/^#define NVML_API_VERSION  *\([0-9]*\).*/\1/p' "$header")
    # Structures that an older header has, and the newest has all.
    while read -r kind field size; do
        ! grep -qw "$kind" "$header" || echo "$kind $field $size"
    done <"$dir/layouts.all" >"$dir/layouts.sim"
    "$python" "$here/layouts.py" <"$dir/layouts.sim" >"$dir/layouts.c"
    cc -I "$(dirname "$header")" -o "$dir/layouts" "$dir/layouts.c"
    "$dir/layouts" >"$dir/layouts.nvidia"
    diff "$dir/layouts.sim" "$dir/layouts.nvidia"
    echo "$(grep -c . "$dir/layouts.nvidia") sizes and offsets as in nvml.h of API version $version"
done

echo "$headers" | while IFS= read -r header; do
    "$python" "$here/values.py" "$header"
done

echo "nodes by nvidia-ml-py:"
for inventory in "$here"/../nodes/*.toml; do
    rm -rf "$dir/node"
    mkdir -p "$dir/node/running"
    cp "$inventory" "$dir/node/node.toml"
    printf '  %s: ' "$(basename "$inventory" .toml)"
    SIM_NODE="$dir/node" "$python" "$here/enumerate.py"
done
echo "all agree"
