#!/usr/bin/env bash
# Figures of many: GPUs in a node, foreign ranges on the lock, other processes, launches on a whole node: tests/bench/many.sh DIRECTORY OF THE PROGRAMS
# ROUNDS (50) times each, and LAUNCHES (1000).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
rounds=${ROUNDS:-50} launches=${LAUNCHES:-1000}
# shellcheck source=tests/bench/room.sh
. "$here/room.sh"
race() { "$bin/getgpu-bench" "$@"; echo; }
# Makes the lock.
getgpu --no-reserve >/dev/null

node=$room/node
for gpus in 1 2 4 8 16; do
    printf "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = %s\nmig = true\nlayout = '7x1g.5gb'\n" "$gpus" >"$node/node.toml"
    : >"$node/calls.log"
    getgpu --no-reserve >/dev/null
    touched=$(grep -c ' attach ' "$node/calls.log")
    echo "== $gpus GPUs: a pick makes $(($(wc -l <"$node/calls.log") - touched)) NVML calls and touches $touched GPU"
    rm "$node/calls.log"
    # What a real driver takes, from measurements of others: 10 ms to start, 29 ms for each GPU that is touched, 50 us a call.
    echo 'latency = { init_ms = 10, attach_ms = 29, call_us = 50 }' >"$node/faults.toml"
    race $((rounds * 2 / 5)) "C client, first device=client" "getgpu=getgpu --for 0" "C scan of all devices=client all" \
        "C scan with names and places=client names" "getgpu --list=getgpu --list"
    rm "$node/faults.toml"
done

# Whole GPUs, with type auto: whether one has a MIG device stands in the driver's tree in /proc, or each of them is asked.
printf "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 8\n" >"$node/node.toml"
tree="mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/capabilities && for n in 0 1 2 3 4 5 6 7; do mkdir -p /proc/driver/nvidia/capabilities/gpu\$n/mig; done"
for shown in true "$tree"; do
    if ! unshare -m sh -c "$shown" 2>/dev/null; then echo "SKIPPED: whole GPUs with the driver's tree need mounts"; continue; fi
    : >"$node/calls.log"
    unshare -m sh -c "$shown; exec getgpu --no-reserve" >/dev/null
    touched=$(grep -c ' attach ' "$node/calls.log")
    echo "== 8 whole GPUs, $([ "$shown" = true ] && echo "no tree" || echo "the driver's tree"): $(($(wc -l <"$node/calls.log") - touched)) NVML calls, $touched GPUs touched"
    rm "$node/calls.log"
    echo 'latency = { init_ms = 10, attach_ms = 29, call_us = 50 }' >"$node/faults.toml"
    unshare -m sh -c "$shown; exec $bin/getgpu-bench $((rounds * 2 / 5)) 'C client, first device=client' 'getgpu --no-reserve=getgpu --no-reserve' 'getgpu=getgpu --for 0'"
    rm "$node/faults.toml"
done
cp "$here/../sim/nodes/a100x8.toml" "$node/node.toml"

# Ranges behind all places of devices, and before them, in turn.
flood="import fcntl, os, struct, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
for place in range(int(sys.argv[2])):
    start = (1 << 33 if place % 2 else 0x7fff << 48) + place * 3
    fcntl.fcntl(lock, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, start, 1, 0))
open(sys.argv[3], 'w').close()
time.sleep(3600)"
for ranges in 0 1 10 100 1000 10000; do
    python3 -c "$flood" "$GETGPU_LOCK" "$ranges" "$room/flooded" &
    until [ -e "$room/flooded" ]; do sleep 0.05; done
    echo "== $ranges foreign ranges on the lock"
    race "$rounds" "/bin/true=/bin/true" "getgpu --no-reserve=getgpu --no-reserve" "cudawrap -- true=cudawrap -- true" "getgpu --list=getgpu --list"
    kill $!
    wait $! 2>/dev/null || true
    rm "$room/flooded"
done

# Another user's, or our own without root.
other=()
[ "$(id -u)" != 0 ] || other=(setpriv --reuid=1001 --clear-groups)
for count in 10 300 3000; do
    # shellcheck disable=SC2016 # the script expands it
    setsid "${other[@]}" dash -c 'for i in $(seq "$0"); do sleep 600 & done; kill -STOP $$' "$count" &
    until [ "$(pgrep -cs $! sleep)" = "$count" ]; do sleep 0.1; done
    echo "== $count other processes on the node"
    race "$rounds" "C client=client" "getgpu --no-reserve=getgpu --no-reserve" "getgpu=getgpu --for 0" "cudawrap -- true=cudawrap -- true"
    kill -KILL -- -$!
    wait $! 2>/dev/null || true
done

# So many launches on 56 devices, 56 at a time, each program for this time.
launch() {
    rm -f "$node"/{runs,collisions}.log
    local began=$EPOCHREALTIME
    seq "$launches" | xargs -P56 --process-slot-var=SLOT -I{} dash -c "$2" >/dev/null 2>&1
    awk -v name="$1" -v began="$began" -v ended="$EPOCHREALTIME" -v n="$launches" -v hand="${hand-}" 'BEGIN {
        time = ended - began
        printf "%-38s %6.2f s  %6.0f a second  x %.2f\n", name, time, n / time, hand ? time / hand : 1 }'
    hand=${hand-$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')}
    [ ! -s "$node/collisions.log" ] && [ "$(grep -c ^start "$node/runs.log")" = "$launches" ]
}
place=0
for uuid in $(getgpu --list --format csv | grep -o 'MIG-[^,]*'); do export "DEVICE$place=$uuid"; place=$((place + 1)); done
for time in 20ms 300ms; do
    echo "== $launches launches on 56 devices, 56 at a time, programs of $time"
    unset hand
    launch "devices given by hand" "eval CUDA_VISIBLE_DEVICES=\\\$DEVICE\$SLOT; export CUDA_VISIBLE_DEVICES; exec sim-cuda --run $time"
    launch "cudawrap --wait -- PROGRAM" "exec cudawrap -q --wait -- sim-cuda --run $time"
    # A program has to run for longer than its reservation's holder needs to see it.
    [ "$time" = 20ms ] || launch "CUDA_VISIBLE_DEVICES=\$(getgpu --wait)" "d=\$(getgpu -q --wait) || exit; CUDA_VISIBLE_DEVICES=\$d exec sim-cuda --run $time"
done
