#!/usr/bin/env bash
# The functions of this project between main and the claim on a device, as gdb finds them on a simulated node, for seven
# kinds of call: where a newcomer puts breakpoints. Fails where a call goes through more than twelve, both counted.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
top=$(cd "$here/.." && pwd)
MOST=12
command -v gdb >/dev/null || { echo "story: skipped: no gdb" >&2; exit 0; }
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-story.XXXXXX")
trap 'rm -rf "$room"' EXIT

mkdir -p "$room"/{lib,lock,node/running,opt}
cp "$here/sim/nodes/mig4.toml" "$room/node/node.toml"
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
: >"$room/config.toml"
cp /bin/true "$room/opt/CUDAWRAP_app"
ln -s "$bin/cudawrap" "$room/opt/app"
unset CUDA_VISIBLE_DEVICES
export PATH="$bin:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node"
export GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml" HOME="$room"
device=$(getgpu --list --format csv | sed -n '2{s/.*\(MIG-[0-9a-f-]*\).*/\1/;p}')

{
    printf 'set %s\n' "pagination off" "print frame-arguments none" "follow-fork-mode parent"
    # The claim on a device that was chosen, and on one that was named.
    grep -n '= Claim::begin(' "$here/../common/lock/src/claim.rs" |
        sed 's/:.*//; s,^,break common/lock/src/claim.rs:,'
    # shellcheck disable=SC2016  # gdb's register
    printf '%s\n' run 'frame apply all info symbol $pc' kill quit
} >"$room/commands"

# story VISIBLE PROGRAM WORD...: prints FILE FUNCTION from main on.
story() {
    local visible=$1 frames
    shift
    echo "${visible:+CUDA_VISIBLE_DEVICES=MIG-... }$(basename "$1") ${*:2}"
    frames=$(env ${visible:+CUDA_VISIBLE_DEVICES=$visible} \
        gdb -q -batch -x "$room/commands" --args "$@" 2>/dev/null |
        awk -v top="$top/" '
            /^#/ { file = $NF; sub(/:[0-9]+$/, "", file); sub("^" top, "", file) }
            # The name with its type: crate and modules are in the path of the file.
            / in section / && file && file !~ "^/" {
                sub(/(::h[0-9a-f]+)? \+ .*/, ""); sub(/.*>::/, ""); sub(/^([a-z_0-9]+::)*/, "")
                print file, $0
            }
            / in section / { file = "" }')
    tac <<<"$frames" | sed 's/^/  /'
    case $(tail -1 <<<"$frames") in *main.rs\ main) ;; *) echo "story: no claim was seen" >&2; exit 1 ;; esac
    [ "$(wc -l <<<"$frames")" -le "$MOST" ] || { echo "story: more than $MOST" >&2; exit 1; }
}

story "" "$bin/getgpu"
story "" "$bin/getgpu" -n 2
story "" "$bin/getgpu" 0
story "" "$bin/cudawrap" -- true
story "" "$room/opt/app"
story "$device" "$bin/cudawrap" -- true
story "$device" "$room/opt/app"
