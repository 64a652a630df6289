#!/bin/bash
# A job of run.sh: WAY. Says when it begins and what its programs saw.
. "${0%/spool*}/$SLURMD_NODENAME/env" 2>/dev/null || . "$(dirname "$SLURM_CONF")/$SLURMD_NODENAME/env"
echo "START way$1 ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME sees ${CUDA_VISIBLE_DEVICES-unset}"
run=0.$((RANDOM % 9)) most=1 wrap=
case $1 in 1) wrap='cudawrap --' ;; 3) most=4 ;; esac
# Every other job starts a step of two tasks as well, if it has two devices or a part.
devices=${CUDA_VISIBLE_DEVICES-} devices=${devices//[^,]/}
sim="sim-cuda --run $run --max $most"
if [ $((SLURM_JOB_ID % 2)) = 1 ]; then
    tasks=1; [ "$devices" = "" ] || tasks=2
    srun -Q --overlap --oversubscribe -n$tasks $wrap $sim; echo "STEP $?"
fi
$wrap $sim; echo "END $?"
