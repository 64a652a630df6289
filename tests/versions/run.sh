#!/usr/bin/env bash
# Programs of two versions on one lock: run.sh BIN PEER, the directories of both; the simulated node is BIN's. What one version takes, keeps,
# shares or waits for is tried against the other, both ways round, and at the end it is said how much was tried.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
peer=$(cd "$2" && pwd)
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-versions.XXXXXX")
cleanup() {
    status=$?
    jobs -p | xargs -r kill -9 2>/dev/null || true
    [ ! -d "$room/lock" ] || "$bin/getgpu" --release-all -q 2>/dev/null || true
    rm -rf "$room"
    [ "$status" -eq 0 ] || echo "versions: FAILED (status $status)" >&2
    exit "$status"
}
trap cleanup EXIT

must() { "$@" || { echo "versions: not so, $first with $second: $*" >&2; exit 1; }; }
# Waits for a condition, twenty seconds at most.
until_true() { for _ in $(seq 400); do if "$@"; then return 0; fi; sleep 0.05; done; "$bin/getgpu" --list >&2; echo "versions: never so, $first with $second: $*" >&2; exit 1; }
fails() { ! "$@" >/dev/null 2>&1; }

mkdir -p "$room"/{lib,lock,node/running}
cp "$bin/libsim_nvml.so" "$room/lib/libnvidia-ml.so.1"
# A program that ends in the moment it began may not be seen, and its reservation waits for it for that long.
printf "linger = '0s'\nreserve_for = '5s'\n" >"$room/config.toml"
unset CUDA_VISIBLE_DEVICES
export LD_LIBRARY_PATH="$room/lib" SIM_NODE="$room/node" GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml" HOME="$room"
export GETGPU_COLOR=never

sim=$bin/sim-cuda log=$room/node/runs.log
starts() { grep -c '^start' "$log" 2>/dev/null || true; }
started() { [ "$(starts)" = "$1" ]; }
free_is() { [ "$("$bin/getgpu" --count-free)" = "$1" ] && [ "$("$peer/getgpu" --count-free)" = "$1" ]; }
# By both versions.
waiting() { for each in "$bin" "$peer"; do [ "$("$each/getgpu" --queue 2>/dev/null | grep -c -- "$room/go-")" = "$1" ] || return 1; done; }
doubles() { [ -s "$room/node/collisions.log" ]; }
on() { rm -f "$log" "$room"/go-*; cp "$here/../sim/nodes/$1" "$room/node/node.toml"; }
# All programs end, and nothing is left: over NUMBER devices.
over() {
    : >"$room/go-all"
    wait
    until_true free_is "$1"
    must fails doubles
}

# One after the other by each version, in three ways: a device each; then none for either.
starts_in_turn() {
    on a100x8.toml
    local number
    for number in $(seq 56); do
        case $((number % 4)) in
        0) CUDA_VISIBLE_DEVICES=$("$first/getgpu") "$sim" --tag "$number" --until-file "$room/go-all" >/dev/null & ;;
        1) "$second/cudawrap" -- "$sim" --tag "$number" --until-file "$room/go-all" >/dev/null & ;;
        2) CUDA_VISIBLE_DEVICES=$("$second/getgpu") "$sim" --tag "$number" --until-file "$room/go-all" >/dev/null & ;;
        3) "$first/cudawrap" -- "$sim" --tag "$number" --until-file "$room/go-all" >/dev/null & ;;
        esac
    done
    until_true started 56
    must [ "$(awk '/^start/ {print $3}' "$log" | sort -u | wc -l)" = 56 ]
    must fails "$first/getgpu" -q
    must fails "$second/cudawrap" -q -- true
    over 56
    pairs=$((pairs + 56))
}

# Quarters of one GPU's seven devices by both: 28 fit, and one more of either version does not.
shares() {
    on a100x8.toml
    local number
    for number in $(seq 14); do
        for each in "$first" "$second"; do
            "$each/cudawrap" -q --gpu 7 --share 1/4 -- "$sim" --max 4 --tag "$number" --until-file "$room/go-all" >/dev/null &
        done
    done
    until_true started 28
    for each in "$first" "$second"; do
        must fails "$each/cudawrap" -q --gpu 7 --share 1/4 -- true
        must fails "$each/getgpu" -q --gpu 7 -n 1 --share 1/16
    done
    over 56
    parts=$((parts + 28))
}

# Eight wait for the one GPU, in turn of each version, and are served in that order.
queue() {
    on h200x1.toml
    "$first/cudawrap" -- "$sim" --tag 0 --until-file "$room/go-0" >/dev/null &
    until_true started 1
    local number by
    for number in $(seq 8); do
        if [ $((number % 2)) = 0 ]; then by=$first; else by=$second; fi
        "$by/cudawrap" -q --wait -- "$sim" --tag "$number" --until-file "$room/go-$number" >/dev/null &
        until_true waiting "$number"
    done
    must fails "$second/getgpu" -q
    for number in $(seq 0 8); do
        : >"$room/go-$number"
        [ "$number" = 8 ] || until_true started $((number + 2))
        must fails doubles
    done
    must [ "$(awk '/^start/ {print $5}' "$log" | tr '\n' ' ')" = "$(seq -s ' ' 0 8) " ]
    over 1
    waiters=$((waiters + 8))
}

# One version waits for two devices of four; what becomes free is kept for it, and the other's call for one comes after it.
kept() {
    on gpus4.toml
    local number
    for number in 1 2 3 4; do
        "$second/cudawrap" -- "$sim" --tag "$number" --until-file "$room/go-$number" >/dev/null &
    done
    until_true started 4
    "$first/cudawrap" -q -n 2 --wait -- "$sim" --tag 5 --until-file "$room/go-all" >/dev/null &
    until_true waiting 1
    "$second/cudawrap" -q --wait -- "$sim" --tag 6 --until-file "$room/go-all" >/dev/null &
    until_true waiting 2
    : >"$room/go-1"
    until_true ended 1
    must fails "$second/getgpu" -q
    must [ "$(starts)" = 4 ]
    : >"$room/go-2"
    until_true began 5
    must fails began 6
    : >"$room/go-3"
    until_true began 6
    : >"$room/go-4"
    over 4
    keepers=$((keepers + 1))
}
began() { grep -q "^start .* $1\$" "$log"; }
ended() { grep -q "^end .* $1\$" "$log"; }

# What one version holds the other lists, prints again by its name, uses inside, and ends.
holders() {
    on mig4.toml
    local device
    device=$("$first/getgpu" --hold=$$ --tag=pair)
    must [ "$("$second/getgpu" --tag=pair)" = "$device" ]
    must [ "$("$second/getgpu" --list | grep -c 'pair')" = 1 ]
    must free_is 3
    CUDA_VISIBLE_DEVICES=$device "$second/cudawrap" -- "$sim" --tag inside --until-file "$room/go-all" >/dev/null &
    until_true started 1
    must grep -q "^start [0-9]* $device .* inside\$" "$log"
    : >"$room/go-all"
    wait
    must free_is 3
    "$second/getgpu" -q --release pair
    until_true free_is 4
    must fails doubles
    # A lease that a program has, and a call below it.
    "$first/cudawrap" -- "$second/cudawrap" -- "$sim" --tag below --run 1ms >/dev/null
    until_true free_is 4
    holds=$((holds + 2))
}

pairs=0 parts=0 waiters=0 keepers=0 holds=0
for round in $(seq "${ROUNDS:-1}"); do
    for pair in "$bin:$peer" "$peer:$bin"; do
        first=${pair%:*} second=${pair#*:}
        starts_in_turn
        shares
        queue
        kept
        holders
    done
done
echo "versions: $("$bin/getgpu" --version) with $("$peer/getgpu" --version), both ways round, $round times: $pairs starts, $parts shares, $waiters waiters, $keepers kept devices, $holds holds; 0 doubles"
