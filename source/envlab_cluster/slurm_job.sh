#!/bin/bash
# Made by: @command@
#
# Slurm runs this on the first node of the job; srun starts one torchrun on every node, which starts
# the processes of its node. Submit it with sbatch.
@directives@

# shellcheck disable=SC2016 # names between single quotes are for the nodes, or for train.py
set -eo pipefail
@activate@
set -u

# The nodes meet at the first of them, at a port that no other job has at the same time, by a name
# that nobody can guess.
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export FIRST_NODE=${nodes%%$'\n'*}
export MEETING_PORT=$((10000 + SLURM_JOB_ID % 20000))
MEETING_NAME=$SLURM_JOB_ID-$(od -An -N8 -tx8 /dev/urandom | tr -d " ")
export MEETING_NAME
echo "Job $SLURM_JOB_ID, restart ${SLURM_RESTART_COUNT:-0}, on:" "${nodes//$'\n'/ }"

train=(
    @train@
)
@seeds@
# torchrun would die of USR1 alone, and kill after 30 s what an iteration and a checkpoint may take
# longer for: hence two of its options. A node that has left must not have the others killed
# while they save: hence those of srun.
srun @srun@ bash -c '
    @torchrun@
' node "${train[@]}"
