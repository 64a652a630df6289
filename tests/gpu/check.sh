#!/usr/bin/env bash
# `make check-gpu`: what the tests show on a simulated node, shown on a real driver and GPU as far as one GPU can show it. It prints a
# table, says SKIPPED where something is missing, and changes no setting of any GPU. It runs under a lease of one device, so that other
# programs of these tools keep away from it; below that, its lock and settings are its own and know this device alone.
# Usage: check.sh PROGRAMS [--compute-mode]: the folder of the built programs; with the option, as root, it also tries the compute mode
# EXCLUSIVE_PROCESS on its device, and puts the default back. Status 1 if a row failed.
set -uo pipefail
# A lock that others can write to is refused.
umask 022

programs=$(cd "$1" && pwd)
refused=
if [ -z "${UNDER_LEASE_FOR_CHECK-}" ]; then
    if refused=$("$programs/cudawrap" -- true 2>&1 >/dev/null); then
        exec env UNDER_LEASE_FOR_CHECK=1 "$programs/cudawrap" --wait=10m -- bash "$0" "$@"
    fi
fi
leased=${CUDA_VISIBLE_DEVICES-}
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-check-gpu.XXXXXX")
started=()
failures=0
# The device whose compute mode has to be put back.
exclusive=
# shellcheck disable=SC2317
end() {
    for pid in ${started[@]+"${started[@]}"}; do kill -9 "$pid" 2>/dev/null; done
    [ -z "$exclusive" ] || nvidia-smi -i "$exclusive" -c DEFAULT >/dev/null 2>&1
    GETGPU_LOCK=$room/lock/lock getgpu --release-all -q 2>/dev/null
    rm -rf "$room"
}
trap end EXIT

mkdir -p "$room"/{bin,lib/getgpu,lock,app,home}
cp "$programs"/{getgpu,cudawrap,create-cudawrap,cuda} "$room/bin/"
cp "$programs/libcudawrap.so" "$room/lib/getgpu/"
export PATH="$room/bin:$PATH" GETGPU_LOCK="$room/lock/lock" GETGPU_CONFIG="$room/config.toml" HOME="$room/home"
hook=$room/lib/getgpu/libcudawrap.so
unset CUDA_VISIBLE_DEVICES CUDA_INJECTION64_PATH
printf 'allowed = ["%s"]\n' "$leased" >"$room/config.toml"
[ -z "$refused" ] || printf 'allowed_file = "%s/none"\n' "$room" >"$room/config.toml"
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$room" || exit 2

row() { printf '%-28s %-8s %s\n' "$1" "$2" "${3:-}"; }
ok() { row "$1" ok "${2:-}"; }
skip() { row "$1" SKIPPED "$2"; }
failed() { row "$1" FAILED "${2:-}"; failures=$((failures + 1)); }
# judge NAME CONDITION... : a row by the status of a command; $detail says more.
detail=
judge() {
    local name=$1
    shift
    if "$@"; then ok "$name" "$detail"; else failed "$name" "$detail"; fi
}
# Says where the table goes; the repository's address stands in Cargo.toml.
finish() {
    local address
    address=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
    echo "Please send this table: as an issue of ${address:-the repository that you have this from}"
    exit $((failures > 0))
}
now() { date +%s%N; }
ms() { echo "$((($(now) - $1) / 1000000)) ms"; }
# until_true SECONDS COMMAND...
until_true() {
    local tries=$(($1 * 50))
    shift
    for _ in $(seq "$tries"); do "$@" && return 0; sleep 0.02; done
    return 1
}
free() { getgpu --count-free 2>/dev/null; }
# shellcheck disable=SC2317
free_is() { [ "$(free)" = "$1" ]; }
# hold NAME COMMAND... : starts a program that makes $room/NAME when it has got so far.
hold() {
    local name=$1
    shift
    "$@" "ready=$room/$name" hold >"$room/$name.out" 2>&1 &
    started+=($!)
    last=$!
    until_true 30 test -e "$room/$name"
}
drop() { kill -9 "$1" 2>/dev/null; wait "$1" 2>/dev/null; }
# What a program says of one of its words.
said() { sed -n "s/^$1 //p" | head -n 1; }
plain() { tr -d -- '-' | sed 's/^[A-Z]*//'; }

row check result detail
row machine ok "$(uname -sr) $(uname -m)"
if [ -n "$refused" ] || ! listed=$(getgpu --list 2>&1) || ! count=$(free) || [ "${count:-0}" -lt 1 ]; then
    why=${refused:-${listed:-no free device here}}
    why=${why%%$'\n'*}
    for name in driver list pick hold cudawrap link context kill busy share mps hook latencies; do skip "$name" "$why"; done
    finish
fi
ok driver "$(getgpu --check | sed -n 's/^ok  *driver: //p') $(head -n 1 /proc/driver/nvidia/version 2>/dev/null)"
getgpu --list | sed 's/^/    /'
all=$count

uuid=$(getgpu --no-reserve)
known=$(command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -c "$uuid")
if [ -n "$known" ]; then detail=$uuid judge "list: as nvidia-smi -L" test "$known" -ge 1; else skip "list: as nvidia-smi -L" "no nvidia-smi"; fi

began=$(now)
getgpu --no-reserve >/dev/null
detail="$(ms "$began")" judge "pick" test -n "$uuid"

getgpu --hold=$$ >/dev/null
detail="$(free) of $all free" judge "hold: one less is free" free_is $((all - 1))
getgpu --release-all -q
detail="$(free) of $all free" judge "hold: given back" until_true 5 free_is "$all"

if ! cuda version >/dev/null 2>&1; then
    for name in cudawrap link context kill busy share mps hook latencies; do skip "$name" "libcuda.so.1 cannot be loaded"; done
    finish
fi
answer=$(cudawrap -- cuda init visible uuid count 2>&1)
wanted=$(printf '%s' "$answer" | said visible | plain)
detail="CUDA has $(printf '%s' "$answer" | said uuid)" judge "cudawrap: CUDA's device" test "$wanted" = "$(printf '%s' "$answer" | said uuid)"

cp bin/cuda app/cuda
create-cudawrap -q --wrapper "$room/bin/cudawrap" app/cuda 2>/dev/null
answer=$(app/cuda init visible uuid 2>&1)
wanted=$(printf '%s' "$answer" | said visible | plain)
detail="CUDA has $(printf '%s' "$answer" | said uuid)" judge "link: CUDA's device" test "$wanted" = "$(printf '%s' "$answer" | said uuid)"
create-cudawrap -q --undo app/cuda 2>/dev/null

# A real context, made through libcuda alone.
began=$(now)
hold context cudawrap -- cuda init context visible
detail="cuInit and cuCtxCreate: $(ms "$began"), status $(said context <context.out)" judge "context: under a lease" test "$(said context <context.out)" = 0
listed=$(getgpu --list --json)
if printf '%s' "$listed" | grep -q "\"processes\":\[[^]]*\"pid\":${last}[,}]"; then
    ok "context: NVML shows its pid" "pid $last"
else
    skip "context: NVML shows its pid" "NVML shows none here: a pid namespace of its own? used: $(printf '%s' "$listed" | grep -o '"memory_used":[0-9]*' | head -n 1)"
fi
detail="$(free) of $all free" judge "context: its device is taken" free_is $((all - 1))
drop "$last"
began=$(now)
detail="" judge "kill -9: free again" until_true 10 free_is "$all"
row "" "" "after $(ms "$began")"

hold foreign env CUDA_VISIBLE_DEVICES="$uuid" cuda init context
began=$(now)
detail="a program without our tools" judge "busy: not handed out" until_true 10 free_is $((all - 1))
row "" "" "seen after $(ms "$began")"
drop "$last"
detail="" judge "busy: free when it ends" until_true 10 free_is "$all"

# On one device, so that the parts must meet.
hold half1 env CUDA_VISIBLE_DEVICES="$uuid" cudawrap --share 1/2 -- cuda init context
first=$last
hold half2 env CUDA_VISIBLE_DEVICES="$uuid" cudawrap --share 1/2 -- cuda init context
second=$last
detail="statuses $(said context <half1.out) and $(said context <half2.out)" judge "share: two halves" test "$(said context <half1.out)$(said context <half2.out)" = 00
CUDA_VISIBLE_DEVICES=$uuid cudawrap --share 1/2 -- true 2>/dev/null
detail="status $?" judge "share: no third half" test $? -eq 75
drop "$first"
drop "$second"
until_true 10 free_is "$all"
if command -v nvidia-cuda-mps-control >/dev/null; then
    hold mps1 env CUDA_VISIBLE_DEVICES="$uuid" cudawrap --share 1/2 --mps -- cuda env=CUDA_MPS_PIPE_DIRECTORY init context
    first=$last
    hold mps2 env CUDA_VISIBLE_DEVICES="$uuid" cudawrap --share 1/2 --mps -- cuda init context
    second=$last
    detail="$(said env <mps1.out)" judge "mps: two clients" test "$(said context <mps1.out)$(said context <mps2.out)" = 00
    drop "$first"
    drop "$second"
    directory=$(said env <mps1.out | cut -d= -f2)
    detail="" judge "mps: its daemon ends" until_true 20 test ! -e "${directory:-/}"
    until_true 10 free_is "$all"
else
    skip mps "nvidia-cuda-mps-control is not installed"
fi

found=$(getgpu --check | grep 'first call')
detail=${found#*first call: } judge "hook: cuInit calls it" grep -q '^ok .*calls' <<<"$found"
answer=$(CUDA_INJECTION64_PATH=$hook cuda init visible uuid 2>&1)
wanted=$(printf '%s' "$answer" | said visible | plain)
detail="CUDA has $(printf '%s' "$answer" | said uuid)" judge "hook: CUDA's device" test "$wanted" = "$(printf '%s' "$answer" | said uuid)"
# Does what the hook sets decide? All devices are leased, so it hides them: cuInit must find none (status 100).
blockers=()
for _ in $(seq "$all"); do
    hold "block$_" cudawrap -- cuda
    blockers+=("$last")
done
answer=$(CUDA_INJECTION64_PATH=$hook cuda init visible 2>/dev/null)
bare=$(cuda init)
detail="cuInit: $(printf '%s' "$answer" | said init); without the hook: ${bare#init }" judge "hook: its variable decides" test "$(printf '%s' "$answer" | said init)" = 100
for pid in "${blockers[@]}"; do drop "$pid"; done
until_true 10 free_is "$all"

# The driver can enforce what the lease promises, where the device has a compute mode; nvml.h says that of a MIG device it is its own.
mode() { getgpu --list --json | grep -o "\"uuid\":\"$uuid\"[^{]*" | grep -o '"compute_mode":"[a-z_]*"' | cut -d '"' -f 4; }
if [ "${2-}" != --compute-mode ]; then
    skip "compute mode: exclusive" "not asked for: make check-gpu CHECK=--compute-mode; the mode is $(mode)"
elif ! command -v nvidia-smi >/dev/null; then
    skip "compute mode: exclusive" "no nvidia-smi; the mode is $(mode)"
elif [ "$(id -u)" != 0 ] || [ "$(mode)" != default ]; then
    skip "compute mode: exclusive" "only root can set it, and only from the default mode; it is $(mode)"
else
    exclusive=$uuid
    answer=$(nvidia-smi -i "$uuid" -c EXCLUSIVE_PROCESS 2>&1)
    if [ "$(mode)" = exclusive_process ]; then
        hold exclusive env CUDA_VISIBLE_DEVICES="$uuid" cuda init context
        first=$last
        second=$(CUDA_VISIBLE_DEVICES=$uuid cuda init context 2>&1 | said context)
        detail="a second program: status $second" judge "compute mode: exclusive" test "$second" != 0
        drop "$first"
    else
        skip "compute mode: exclusive" "not here: $(printf '%s' "$answer" | head -n 1)"
    fi
    nvidia-smi -i "$uuid" -c DEFAULT >/dev/null 2>&1
    exclusive=
    detail="put back" judge "compute mode: default" test "$(mode)" = default
    until_true 10 free_is "$all"
fi

took=()
for _ in 1 2 3; do began=$(now); cuda init >/dev/null; took+=("$(ms "$began")"); done
ok "latency: cuInit" "${took[*]}"
took=()
for _ in 1 2 3; do began=$(now); CUDA_INJECTION64_PATH=$hook cuda init >/dev/null; took+=("$(ms "$began")"); done
ok "latency: with the hook" "${took[*]}"
took=()
for _ in 1 2 3; do began=$(now); getgpu --no-reserve >/dev/null; took+=("$(ms "$began")"); done
ok "latency: getgpu" "${took[*]}"
finish
