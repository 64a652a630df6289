#!/bin/bash
# A job of run.sh: KIND PROGRAMS. It says what Slurm granted it, then starts that many programs in one of the ways that people have.
unset SLURM_EXPORT_ENV # that of sbatch, with which a step has no PATH
D=$(dirname "$SLURM_CONF")
# shellcheck disable=SC1090 # the file of variables is made by run.sh
. "$D/${SLURM_JOB_PARTITION%%-*}/env"
echo "START $1 $2 ${SLURM_RESTART_COUNT:-0} $SLURM_JOB_PARTITION"
scontrol show job -d -o "${SLURM_HET_JOB_ID:-$SLURM_JOB_ID}" | grep -oE ' Nodes=[^ ]* CPU_IDs=[^ ]* Mem=[^ ]* GRES=[^ ]*'
run() { BEGAN=$(($(date +%s%N) / 1000000)) srun -Q "$@"; }
case $1 in
single | array) run app; app ;;
part) export MOST=4; run --overlap app; app ;;
packed) for _ in 1 2; do run --exclusive -n2 --gres="gpu:$GPU:2" app & done; wait ;;
multi-prog) printf '0 app\n1 app\n' >"$TMPDIR/multi.$SLURM_JOB_ID"; run -n2 --multi-prog "$TMPDIR/multi.$SLURM_JOB_ID" ;;
het) run --het-group=0,1 app ;;
shared) MOST=2 run -n4 app ;;
per-task) run -n2 app ;;
bind-*) run -n2 --gpu-bind="${1#bind-}" app ;;
pair) run -n2 app ;;
esac
echo "STATUS $?"
