#!/bin/bash
# One program of a job of run.sh, as a task or in the script itself: says how long its start took, then uses its device for a moment.
# shellcheck disable=SC1090 # the file of variables is made by run.sh
. "$(dirname "$SLURM_CONF")/$SLURMD_NODENAME/env"
[ -z "${BEGAN-}" ] || echo "STARTED $SLURM_JOB_PARTITION $(($(date +%s%N) / 1000000 - BEGAN))"
tag=$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.${SLURM_STEP_ID:-script}.${SLURM_PROCID:-0}
wrap=; case $SLURM_JOB_PARTITION in *-plain) wrap='cudawrap --' ;; esac
$wrap sim-cuda --run 0.$((RANDOM % 9)) --max "${MOST:-1}" --tag "$tag"
echo "END $tag $?"
