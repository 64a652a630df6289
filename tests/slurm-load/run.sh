#!/bin/bash
# Jobs on a real Slurm whose GPUs its own nvml plugin finds, on two simulated nodes: `mig` has 8 MIG devices under Slurm and two outside
# (parts of these are given by way 3 of etc/slurm/README.md), `whole` has four GPUs. On each, the jobs of one partition start cudawrap
# (way 1), those of the other have the TaskProlog (way 2). Jobs are requeued, suspended, cancelled and killed and slurmd is restarted
# meanwhile. In the end it says who used what he was not granted, who had no device, what stayed reserved, and how long steps took to
# start. A slurmd that is restarted while a job ends starts no Epilog for it, so in the end Prologs run until that is cleared as well.
#
#   cargo build --workspace; tests/slurm-load/run.sh DIR [JOBS=500] [TARGET=target/debug]
#
# Needs root, slurmctld, slurmd, slurm-client, gpu_nvml.so (.ci/install fetches it) and mount namespaces; ConstrainDevices with cgroups
# of version 1 alone. Without them it says SKIPPED. With SLURM_PLUGINS=DIR and GPU_NVML=FILE it is another Slurm, the first in PATH. DIR is made anew; all is in it but the cgroups.
# shellcheck disable=SC1090,SC1091,SC2016,SC2209 # files and scripts that it makes itself; words, not commands
set -eu
export PATH=$PATH:/usr/sbin:/sbin
D=$(realpath -m "$1") JOBS=${2:-500} HERE=$(dirname "$(realpath "$0")")
TARGET=$(realpath "${3:-$HERE/../../target/debug}") HOOKS=$(realpath "$HERE/../../etc/slurm")
PLUGIN=$(realpath -m "${GPU_NVML:-$HERE/../../target/tools/slurm/gpu_nvml.so}") PORT=${SLURM_LOAD_PORT:-27700} HOST=$(hostname -s)
export SLURM_CONF=$D/slurm.conf

skip() { echo "SKIPPED: slurm-load: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root"
for tool in slurmctld slurmd sbatch python3; do command -v $tool >/dev/null || skip "$tool is not installed"; done
[ -e "$PLUGIN" ] || skip "Slurm's plugin gpu_nvml.so is not in ${PLUGIN%/*}"
unshare --mount --propagation private true 2>/dev/null || skip "mount namespaces are forbidden"
CONSTRAIN=no; [ ! -w /sys/fs/cgroup/devices ] || CONSTRAIN=yes

# What a node has and is called: settings for both, and the simulated machine.
prepare() { # name, GPUs, settings
    mkdir -p "$D/$1/sim" "$D/$1/run"; mkdir -m 1777 "$D/$1/sim/running"; chmod 1777 "$D/$1/sim"
    { printf 'driver = "550.54.15"\nhost = "%s"\n' "$1"; cat; } >"$D/$1/sim/node.toml"
    # NVML lists only what a task's cgroup leaves open.
    [ $CONSTRAIN = no ] || echo 'closed_hidden = true' >"$D/$1/sim/faults.toml"
    for log in runs.log collisions.log; do install -m 666 /dev/null "$D/$1/sim/$log"; done
    printf 'without_grant = "none"\n%s\n' "$3" >"$D/$1/config.toml"
    cat >"$D/$1/env" <<C
export SIM_NODE=$D/$1/sim LD_LIBRARY_PATH=$D/lib GETGPU_LOCK=$D/$1/run/lock GETGPU_CONFIG=$D/$1/config.toml TMPDIR=/tmp
export PATH=$D/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
C
    setsid unshare --mount --propagation private bash -c '. "$1/$2/env"; exec "$0" "$@"' "$HERE/node.sh" "$D" "$1" "$2" &
    echo $! >"$D/$1/pid"
}

set_up() {
    rm -rf "$D"; mkdir -p "$D"/{state,log,out,bin,lib,plugins}; chmod 1777 "$D/out"
    # Copies, since what is built meanwhile replaces these.
    for name in getgpu cudawrap sim-cuda; do cp "$TARGET/$name" "$D/bin/$name"; done
    install -m 755 "$HERE/app.sh" "$D/bin/app"; install -m 755 "$HERE/job.sh" "$D/job"; cp "$HOOKS/job_submit.lua" "$D"
    # The plugin asks for the library without its version as well.
    for name in libnvidia-ml.so libnvidia-ml.so.1; do cp "$TARGET/libsim_nvml.so" "$D/lib/$name"; done
    cp "$PLUGIN" "$D/plugins/"
    for name in prolog epilog task-prolog; do
        case $name in task-prolog) on='*-tasks|*-parts' ;; *) on='*-parts' ;; esac
        case $name in task-prolog) note=true ;; *) note="echo $name \$SLURM_JOB_ID >>$D/\$SLURMD_NODENAME/hooks" ;; esac
        printf '#!/bin/sh\n. %s/$SLURMD_NODENAME/env\ncase $SLURM_JOB_PARTITION in %s) %s; exec %s ;; esac\n' \
            "$D" "$on" "$note" "$HOOKS/$name" >"$D/$name"
        chmod 755 "$D/$name"
    done
    { cat <<C
ClusterName=load
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool-%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
SlurmctldLogFile=$D/log/slurmctld
SlurmdLogFile=$D/log/%n
PluginDir=${SLURM_PLUGINS:-$(dirname "$(dpkg -L slurm-wlm-basic-plugins 2>/dev/null | grep -m1 '/select_cons_tres.so$' || echo /usr/lib64/slurm/x)")}:$D/plugins
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1,default_queue_depth=500
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
GresTypes=gpu,gpuhalf,gpuquarter,gpueighth
KillWait=3
ReturnToService=2
SlurmdParameters=config_overrides
PrologFlags=Contain
JobSubmitPlugins=lua
Prolog=$D/prolog
Epilog=$D/epilog
TaskProlog=$D/task-prolog
TaskEpilog=$D/task-prolog
NodeName=mig NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((PORT + 1)) CPUs=64 CoresPerSocket=64 Features=gpushare4 Gres=gpu:a100_1g.5gb:5,gpu:a100_2g.10gb:3,gpuquarter:8 State=UNKNOWN
NodeName=whole NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((PORT + 2)) CPUs=64 CoresPerSocket=64 Gres=gpu:a100-sxm4-40gb:4 State=UNKNOWN
PartitionName=mig-plain Nodes=mig State=UP MaxTime=INFINITE OverSubscribe=YES:8
PartitionName=mig-tasks Nodes=mig State=UP MaxTime=INFINITE OverSubscribe=YES:8
PartitionName=mig-parts Nodes=mig State=UP MaxTime=INFINITE OverSubscribe=YES:8
PartitionName=whole-plain Nodes=whole State=UP MaxTime=INFINITE OverSubscribe=YES:8
PartitionName=whole-tasks Nodes=whole State=UP MaxTime=INFINITE OverSubscribe=YES:8
C
    } >"$D/slurm.conf"
    printf 'AutoDetect=nvml\nNodeName=mig Name=gpuquarter Count=8 Flags=CountOnly\n' >"$D/gres.conf"
    printf 'CgroupPlugin=cgroup/v1\nConstrainDevices=%s\n' $CONSTRAIN >"$D/cgroup.conf"
    slurmctld
    local outside=GPU-0000ffff-1111-2222-3333-444444444444
    prepare mig 3 $'allowed = ["'$outside$'"]\n[slurm]\ntasks = "auto"\nold = "40s"\nshares = ["gpushare4=1/4"]\noptions = "--gpu 2"' <<C
[[gpu]]
model = "A100-SXM4-40GB"
cpus = "0-1"
mig = true
layout = "5x1g.5gb"
[[gpu]]
model = "A100-SXM4-40GB"
cpus = "0-1"
mig = true
layout = "3x2g.10gb"
[[gpu]]
model = "A100-SXM4-40GB"
uuid = "$outside"
cpus = "0-1"
mig = true
layout = "2x3g.20gb"
C
    prepare whole 4 $'[slurm]\ntasks = "auto"' <<C
[[gpu]]
model = "A100-SXM4-40GB"
cpus = "0-1"
count = 4
C
    for _ in $(seq 150); do [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" != 2 ] || break; sleep 0.2; done
    # What each of Slurm's numbers stands for on a node.
    srun -p mig-plain --gres=gpu:8 printenv CUDA_VISIBLE_DEVICES >"$D/mig/numbers"
    (. "$D/whole/env"; getgpu --list --json) | grep -o '"uuid":"[^"]*' | cut -d'"' -f4 | paste -sd, >"$D/whole/numbers"
}

submit() { # partition, type, kind, programs, options
    local partition=$1 type=$2 kind=$3 programs=$4
    shift 4
    sbatch -Q --parsable -p "$partition" --requeue --open-mode=append -D /tmp --uid="$USER_OF" -o "$D/out/%A_%a_%j" --export="NONE,GPU=$type" "${@//TYPE/$type}" \
        "$D/job" "$kind" "$programs" >/dev/null
    USER_OF=$([ "$USER_OF" = daemon ] && echo games || echo daemon)
}

# Each line: kind, programs that have a device in the end, options. Bindings that Slurm itself does without are not here.
kinds() { # partition, type
    submit "$1" "$2" single 2 --gres=gpu:TYPE:1
    submit "$1" "$2" pair 2 -n2 --gres=gpu:TYPE:2
    submit "$1" "$2" multi-prog 2 -n2 --gres=gpu:TYPE:2
    submit "$1" "$2" array 2 --array=1-3 --gres=gpu:TYPE:1
    submit "$1" "$2" shared 4 -n4 --gres=gpu:TYPE:2
    submit "$1" "$2" per-task 2 -n2 --gpus-per-task=TYPE:1
    for bind in none closest single:1 per_task:1 map_gpu:0,1 mask_gpu:1,2; do submit "$1" "$2" "bind-$bind" 2 -n2 --gres=gpu:TYPE:2; done
    case $2 in *2g*) ;; *) submit "$1" "$2" packed 4 -n4 --gres=gpu:TYPE:4 ;; esac
}

load() {
    while [ "$(find "$D/out" -type f | wc -l)" -lt "$JOBS" ]; do
        for _ in $(seq 6); do submit mig-parts - part 2 --constraint=gpushare4; done
        for way in plain tasks; do
            # Slurm gives the components of a job nodes of their own, and while one waits for them nothing behind it starts.
            submit mig-$way a100_2g.10gb het 2 --nice=1000 -n1 --gres=gpu:TYPE:1 : -p whole-$way -n1 --gres=gpu:1
            kinds mig-$way a100_1g.5gb; kinds mig-$way a100_2g.10gb; kinds whole-$way a100-sxm4-40gb
        done
        while [ "$(squeue -h -r -t PD | wc -l)" -gt 40 ]; do disturb; care; sleep 0.3; done
    done
    while [ -n "$(squeue -h)" ]; do disturb; care; sleep 0.3; done
}

# Something that goes wrong, to a job that runs or to a daemon; each is written down with its job.
disturb() {
    local job node
    [ -z "${CALM-}" ] && [ $((RANDOM % 3)) = 0 ] || return 0
    job=$(squeue -h -r -t R -o %A | shuf -n1); [ -n "$job" ] || return 0
    case $((RANDOM % 12)) in
    0 | 1 | 2 | 3) what=requeue; scontrol requeue "$job" ;;
    4 | 5) what=suspend; scontrol suspend "$job" && SUSPENDED+=" $job" ;;
    6 | 7) what=cancel; scancel "$job" ;;
    8 | 9) what=kill; scancel --full --signal=KILL "$job" ;;
    *) what=restart; node=$(shuf -en1 mig whole); kill -"$(shuf -en1 KILL TERM)" "$(cat "$D/slurmd-$node.pid")"; start "$node" ;;
    esac >/dev/null 2>&1 || return 0
    echo "$what $job" >>"$D/disturbed"
    # shellcheck disable=SC2086 # a list of words
    set -- $SUSPENDED
    [ $# -lt 3 ] || { scontrol resume "$1" >/dev/null 2>&1 || true; shift; SUSPENDED="$*"; }
}

start() {
    nsenter --mount="/proc/$(cat "$D/$1/pid")/ns/mnt" bash -c '. "$0/$1/env"; exec slurmd -N "$1"' "$D" "$1"
}

# Nodes that Slurm drained, jobs that it holds after a requeue, and what is suspended while nothing runs: it keeps its GPUs.
care() {
    for node in $(sinfo -h -N -t down,drain,drng -o %N | sort -u); do
        echo "$node $(sinfo -h -n "$node" -o %E | head -1)" >>"$D/drained"; scontrol update nodename="$node" state=resume
    done
    squeue -h -r -t PD -o "%A %r" | while read -r job why; do
        case $why in *[Hh]eld*) scontrol release "$job" >/dev/null 2>&1 || true ;; esac
    done
    if [ "$(squeue -h -r -t R,CG | wc -l)" = 0 ]; then
        for job in $(squeue -h -r -t S -o %A); do scontrol resume "$job" 2>/dev/null || true; done
        [ $((QUIET += 1)) -lt 20 ] || thaw
    fi
}

# What slurmd froze for a suspend and, restarted meanwhile, forgot to thaw.
thaw() {
    find /sys/fs/cgroup/freezer/slurm_{mig,whole} -name freezer.state 2>/dev/null | while read -r state; do { echo THAWED >"$state"; } 2>/dev/null || true; done
}

tear_down() {
    scancel --full --signal=KILL --user=daemon,games 2>/dev/null || true; scancel --user=daemon,games 2>/dev/null || true
    for _ in $(seq 100); do [ -n "$(squeue -h 2>/dev/null)" ] || break; sleep 0.2; done
    for pid in "$D"/*.pid; do kill "$(cat "$pid")" 2>/dev/null || true; done
    thaw
    for node in mig whole; do
        kill "$(cat "$D/$node/pid")" 2>/dev/null || true
        (. "$D/$node/env"; getgpu -q --release-all) || true
    done
}

# How long a step takes to start where nothing else goes on, in milliseconds.
quiet_starts() {
    for partition in mig-plain mig-tasks whole-plain whole-tasks; do
        for _ in $(seq 15); do
            began=$(($(date +%s%N) / 1000000)); then=$(srun -Q -p "$partition" --gres=gpu:1 -n1 date +%s%N)
            echo "QUIET $partition $((then / 1000000 - began))"
        done
    done >"$D/quiet"
}

list_all() { # name of the lists
    for node in mig whole; do (. "$D/$node/env"; getgpu --list --json >"$D/$node/$1"); done
}

# Prologs, until nothing is reserved any more; for longer than `old` of the settings.
late_prologs() {
    for _ in $(seq 60); do
        list_all after
        grep -q slurm- "$D/mig/after" || break
        srun -Q -p mig-parts --constraint=gpushare4 -n1 true || true
        sleep 1
    done
}

trap tear_down EXIT
set_up
USER_OF=daemon SUSPENDED='' QUIET=0 BEGAN=$SECONDS
load
echo "seconds: $((SECONDS - BEGAN)), ConstrainDevices=$CONSTRAIN"
quiet_starts
list_all before-late-prologs
ls "$D/mig/run" >"$D/mig/notes"
late_prologs
python3 "$HERE/report.py" "$D"
