#!/usr/bin/env bash
# The main job on a simulated 8 x A100 node with 56 MIG devices: twenty programs started at once in three ways, on twenty
# different devices, one of them killed. Real processes and real kernel locks; only the NVIDIA library is simulated.
set -euo pipefail
# What others can write is not trusted, and some systems have 002.
umask 022

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-demo.XXXXXX")
jobs_started=()
cleanup() {
    status=$?
    for pid in "${jobs_started[@]}" ${sharers[@]+"${sharers[@]}"}; do kill -9 "$pid" 2>/dev/null || true; done
    getgpu --release-all -q 2>/dev/null || true
    rm -rf "$room"
    [ "$status" -eq 0 ] && echo "demo: all as it should be" || echo "demo: FAILED (status $status)" >&2
    exit "$status"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
must() { "$@" || { echo "demo: not so: $*" >&2; exit 1; }; }
# Waits for a condition, ten seconds at most.
until_true() { for _ in $(seq 200); do if "$@"; then return 0; fi; sleep 0.05; done; echo "demo: never so: $*" >&2; exit 1; }

mkdir -p "$room"/{lib,lock,node/running,opt}
cp "$here/../sim/nodes/a100x8.toml" "$room/node/node.toml"
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
: >"$room/config.toml"
unset CUDA_VISIBLE_DEVICES
export PATH="$bin:$PATH" LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node"
export GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml" HOME="$room"

starts() { grep -c '^start' "$room/node/runs.log" 2>/dev/null || true; }
started() { [ "$(starts)" = "$1" ]; }
free_is() { [ "$(getgpu --count-free)" = "$1" ]; }

say "getgpu --list: 8 GPUs, 7 MIG devices each, nothing in use"
getgpu --list | sed -n '1,9p'
echo "  ... $(($(getgpu --list --format csv | wc -l) - 1)) devices in all"
must free_is 56

say "create-cudawrap: two programs become links, their users notice nothing"
for name in simulate train; do
    cp "$bin/sim-cuda" "$room/opt/$name"
    create-cudawrap -q "$room/opt/$name"
done
create-cudawrap --status "$room/opt/simulate" "$room/opt/train"

say "Twenty programs at once: CUDA_VISIBLE_DEVICES=\$(getgpu), cudawrap --, and wrapped names"
wait_for="$room/go"
for n in 1 2 3 4 5 6 7; do
    (CUDA_VISIBLE_DEVICES=$(getgpu) exec sim-cuda --tag "getgpu-$n" --until-file "$wait_for") >/dev/null & jobs_started+=($!)
    cudawrap -- sim-cuda --tag "cudawrap-$n" --until-file "$wait_for" >/dev/null & jobs_started+=($!)
    victim=$!
    if [ "$n" -le 6 ]; then
        name=$([ $((n % 2)) = 0 ] && echo simulate || echo train)
        "$room/opt/$name" --tag "wrapped-$n" --until-file "$wait_for" >/dev/null & jobs_started+=($!)
    fi
done
until_true started 20
devices=$(awk '/^start/ {print $3}' "$room/node/runs.log" | sort -u | wc -l)
echo "20 programs run on $devices different devices"
must [ "$devices" = 20 ]
must [ ! -s "$room/node/collisions.log" ]
getgpu --list | awk 'NR == 1 || /leased|reserved|busy/'
must free_is 36

say "One is killed with SIGKILL: the kernel gives its device back"
# No job of the shell's any more, which would tell of it in words of its own.
disown "$victim"
kill -9 "$victim"
until_true free_is 37
echo "37 of 56 are free"

say "Quarters of one GPU's seven devices: as many programs as fit, and five more that wait in the queue"
share=(cudawrap -q --gpu 7 --share 1/4 --wait --)
rm -f "$room/quarters"
before=$(starts)
sharers=()
# The free devices of that GPU: those that the twenty programs left.
places=$(getgpu --count-free --gpu 7 --share 1/4)
for n in $(seq $((places + 5))); do
    "${share[@]}" sim-cuda --max 4 --tag "quarter-$n" --until-file "$room/quarters" >/dev/null & sharers+=($!)
done
line_is() { getgpu --list 2>&1 >/dev/null | grep -q "^getgpu: $1 programs wait"; }
until_true started $((before + places))
until_true line_is 5
getgpu --list 2>/dev/null | awk 'NR == 1 || ($2 == 7 && /shared/)' | sed -n '1,4p'
getgpu --list 2>&1 >/dev/null | grep 'programs wait'
: >"$room/quarters"
for pid in "${sharers[@]}"; do must wait "$pid"; done
must [ ! -s "$room/node/collisions.log" ]
echo "all $((places + 5)) have run, never more than four on a device"

say "The others end; nothing is left, and the programs go back under their names"
: >"$wait_for"
for pid in "${jobs_started[@]}"; do [ "$pid" = "$victim" ] || must wait "$pid"; done
jobs_started=()
until_true free_is 56
getgpu --list | sed -n '1,3p'
must [ -z "$(getgpu --list | awk '/leased|reserved|busy|unknown/')" ]
must [ ! -s "$room/node/collisions.log" ]
create-cudawrap --undo "$room/opt/simulate" "$room/opt/train"
