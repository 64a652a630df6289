#!/bin/bash
# A load of batch jobs on a real Slurm with six simulated nodes of four GPUs: n1 and n2 by way 1 of etc/slurm/README.md
# (cudawrap), n3 and n4 by way 2 (TaskProlog), n5 and n6 by way 3 (parts). Requeues, suspends, kills and restarts of slurmd
# go on meanwhile. In the end it says who collided and which jobs had no device.
#
#   cargo build --workspace; tests/slurm-load/three-ways/run.sh DIR [JOBS=2000] [TARGET=target/debug]
#
# Needs root, slurmctld, slurmd, slurm-client and the cgroups of version 1. DIR is made anew; all is in it but the cgroups.
set -eu
export PATH=$PATH:/usr/sbin:/sbin
D=$(realpath -m "$1") JOBS=${2:-2000} TARGET=$(realpath "${3:-target/debug}") HERE=$(dirname "$(realpath "$0")")
HOOKS=$(realpath "$HERE/../../../etc/slurm") PORT=${SLURM_LOAD_PORT:-27500} HOST=$(hostname -s) NODES="1 2 3 4 5 6"
export SLURM_CONF=$D/slurm.conf

set_up() {
    rm -rf "$D"; mkdir -p "$D"/{state,log,dev,out,bin}; chmod 1777 "$D/out"
    for i in 0 1 2 3; do ln -s /dev/null "$D/dev/nvidia$i"; done
    for name in getgpu cudawrap sim-cuda; do ln -s "$TARGET/$name" "$D/bin/$name"; done
    mkdir "$D/lib"; ln -s "$TARGET/libsim_nvml.so" "$D/lib/libnvidia-ml.so.1"
    for i in $NODES; do
        mkdir -p "$D/n$i/sim" "$D/n$i/run"; mkdir -m 1777 "$D/n$i/sim/running"; chmod 1777 "$D/n$i/sim"
        printf 'host = "n%s"\n' "$i" | cat - "$HERE/../../sim/nodes/gpus4.toml" >"$D/n$i/sim/node.toml"
        install -m 666 /dev/null "$D/n$i/sim/runs.log"; install -m 666 /dev/null "$D/n$i/sim/collisions.log"
        printf '[slurm]\ntasks = "%s"\n%s\n' "$([ "$i" -gt 4 ] && echo asked || echo auto)" "${SETTINGS-}" >"$D/n$i/config.toml"
        cat >"$D/n$i/env" <<E
export SIM_NODE=$D/n$i/sim LD_LIBRARY_PATH=$D/lib GETGPU_LOCK=$D/n$i/run/lock GETGPU_CONFIG=$D/n$i/config.toml
export PATH=$D/bin:/usr/sbin:/usr/bin:/sbin:/bin
E
    done
    for i in $NODES; do (. "$D/n$i/env"; getgpu --count-free >/dev/null); done  # root makes the lock
    # A hook does something on the nodes of its way only.
    for name in prolog epilog task-prolog; do
        case $name in task-prolog) on='n[3456]' ;; *) on='n[56]' ;; esac
        printf '#!/bin/sh\n. %s/$SLURMD_NODENAME/env\ncase $SLURMD_NODENAME in %s) exec %s ;; esac\n' "$D" "$on" "$HOOKS/$name" >"$D/$name"
        chmod 755 "$D/$name"
    done
    cp "$HOOKS/job_submit.lua" "$D"
    cp "$HERE/job.sh" "$D/job"
    { cat <<C
ClusterName=load
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool-%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
SlurmctldLogFile=$D/log/slurmctld
SlurmdLogFile=$D/log/%n
ProctrackType=${PROCTRACK:-proctrack/cgroup}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1,default_queue_depth=500
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
GresTypes=gpu,gpuhalf,gpuquarter,gpueighth
KillWait=3
ReturnToService=2
MaxJobCount=20000
MaxArraySize=1001
SlurmdParameters=config_overrides
PrologFlags=Contain
JobSubmitPlugins=lua
Prolog=$D/prolog
Epilog=$D/epilog
TaskProlog=$D/task-prolog
C
    for i in $NODES; do
        echo "NodeName=n$i NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((PORT + i)) CPUs=64 CoresPerSocket=64 \
$([ "$i" -gt 4 ] && echo Features=gpushare4 Gres=gpuquarter:16 || echo Gres=gpu:4) State=UNKNOWN"
    done
    printf 'PartitionName=way%s Nodes=n[%s] State=UP MaxTime=INFINITE OverSubscribe=YES:8\n' 1 1-2 2 3-4 3 5-6; } >"$D/slurm.conf"
    printf 'NodeName=n[1-4] Name=gpu File=%s/dev/nvidia[0-3]\nNodeName=n[5-6] Name=gpuquarter Count=16 Flags=CountOnly\n' "$D" >"$D/gres.conf"
    echo CgroupPlugin=cgroup/v1 >"$D/cgroup.conf"
    slurmctld
    for i in $NODES; do slurmd -N "n$i"; done
    until [ "$(sinfo -h -t idle -o %D | awk '{ n += $1 } END { print n }')" = 6 ]; do sleep 0.2; done
}

submit() { # way, jobs, options, tasks
    for ((left = $2; left > 0; left -= 20)); do
        sbatch -Q -p "way$1" -n"${4:-1}" --array="1-$((left < 20 ? left : 20))" --requeue --open-mode=append -D /tmp --uid="$USER_OF" -o "$D/out/%j" ${3:-} "$D/job" "$1" >/dev/null
        USER_OF=$([ "$USER_OF" = nobody ] && echo games || echo nobody)
    done
}

# Something that goes wrong, to a job that runs or to a daemon; each is counted.
disturb() {
    local job node
    job=$(squeue -h -r -t R -o %F_%K | shuf -n1); [ -n "$job" ] || return 0
    case $((RANDOM % 12)) in
    0 | 1 | 2 | 3) what=requeue; scontrol requeue "$job" ;;
    4 | 5) what=suspend; scontrol suspend "$job" && SUSPENDED+=" $job" ;;
    6 | 7) what=cancel; scancel "$job" ;;
    8 | 9) what=kill; scancel --full --signal=KILL "$job" ;;
    *) what=restart; node=n$((RANDOM % 6 + 1)); kill -"$([ $((RANDOM % 2)) = 0 ] && echo KILL || echo TERM)" "$(cat "$D/slurmd-$node.pid")"; slurmd -N "$node" ;;
    esac >/dev/null 2>&1 && echo "$what" >>"$D/disturbed" || true
    set -- $SUSPENDED
    [ $# -lt 4 ] || { scontrol resume "$1" >/dev/null 2>&1 || true; shift; SUSPENDED="$*"; }
}

tear_down() {
    scancel --full --signal=KILL --user=nobody,games 2>/dev/null || true; scancel --user=nobody,games 2>/dev/null || true
    for _ in $(seq 100); do [ -n "$(squeue -h)" ] || break; sleep 0.2; done
    for pid in "$D"/*.pid; do kill "$(cat "$pid")" 2>/dev/null || true; done
    thaw; for i in $NODES; do (. "$D/n$i/env"; getgpu -q --release-all); done
}

# What slurmd froze for a suspend and, restarted meanwhile, forgot to thaw.
thaw() {
    find /sys/fs/cgroup/freezer/slurm_n[1-6] -name freezer.state 2>/dev/null | while read -r state; do echo THAWED >"$state"; done
}

set_up
trap tear_down EXIT
USER_OF=nobody SUSPENDED= QUIET=0 BEGAN=$SECONDS
submit 1 $((JOBS / 6)) --gres=gpu:1; submit 1 $((JOBS / 6)) --gres=gpu:2 2
submit 2 $((JOBS / 6)) --gres=gpu:1; submit 2 $((JOBS / 6)) --gres=gpu:2 2
submit 3 $((JOBS - JOBS / 6 * 4)) --constraint=gpushare4
while [ -n "$(squeue -h)" ]; do
    disturb
    for node in $(sinfo -h -N -t down,drain,drng -o %N | sort -u); do
        echo "$node $(sinfo -h -n "$node" -o %E | head -1)" >>"$D/drained"; scontrol update nodename="$node" state=resume
    done
    squeue -h -r -t PD -o "%F_%K %r" | while read -r job why; do
        case $why in *[Hh]eld*) scontrol release "$job" >/dev/null 2>&1 || true ;; BeginTime) scontrol update jobid="$job" starttime=now >/dev/null 2>&1 || true ;; esac
    done
    if [ "$(squeue -h -r -t PD,R | wc -l)" = 0 ]; then
        for job in $(squeue -h -r -t S -o %F_%K); do scontrol resume "$job" 2>/dev/null || true; done
        [ $((QUIET += 1)) -lt 20 ] || thaw
    fi
    sleep 0.3
done
echo "seconds: $((SECONDS - BEGAN))"
"$HERE/count.sh" "$D"
