#!/usr/bin/env bash
# Proves on two GPUs of this machine what one cannot: collectives, equal ranks, recorded updates, an exact
# resume of runs with and without them, weak scaling.
#   scripts/gpu/two.sh [--cpu] [FOLDER]
# FOLDER (default: logs/two) gets report.md and the output of each step. --cpu walks the same steps at a small
# size on two processes without GPUs, to see that nothing in them is broken before GPUs are paid for.
# Needs: envlab importable by $PYTHON (default: python). Exits with 1 if a step failed.
set -uo pipefail

folder_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

graph=on device=cuda envs=4096 limit=1800 repeats=3 physics="env.sim.backend=mujoco_warp env.sim.deterministic=true"
libraries="rsl_rl rl_games skrl fast_sac" recorded="rsl_rl rl_games skrl"
tasks="Isaac-Cartpole-v0 Isaac-Velocity-Flat-Unitree-Go2-v0"
if [ "${1:-}" = --cpu ]; then
    shift
    graph=auto device=cpu envs=16 repeats=1 physics='' libraries="rsl_rl fast_sac" recorded=rsl_rl
    tasks=Isaac-Cartpole-v0
fi
# shellcheck source=scripts/gpu/steps.sh
. scripts/gpu/steps.sh "${1:-logs/two}"

scripts=$PWD/scripts
two=("$python" -m torch.distributed.run --standalone --nproc_per_node=2)
train() { # SECONDS NAME LIBRARY FLAGS...: on both GPUs, what must be equal compared in each iteration
    local seconds=$1 name=$2 library=$3
    shift 3
    # shellcheck disable=SC2086
    step "$seconds" "$name" "${two[@]}" "$scripts/reinforcement_learning/$library/train.py" --headless --distributed \
        --device "$device" --num_envs "$envs" agent.audit_interval=1 $physics "$@"
}

step 120 doctor "${two[@]}" -m envlab.cli doctor --distributed
for library in $libraries; do
    train 200 "trains-$library" "$library" --task Isaac-Cartpole-v0 --max_iterations 6
done
# Updates recorded as graphs, whose gradients both GPUs reduce, and the same without. DDP is not recorded.
for library in $recorded; do
    train 150 "recorded-$library" "$library" --task Isaac-Cartpole-v0 --max_iterations 6 --grad_sync library \
        "agent.graph=$graph"
done
train 150 unrecorded rsl_rl --task Isaac-Cartpole-v0 --max_iterations 6 --grad_sync library agent.graph=off
# Of a task without contacts: mujoco_warp does not order the rows of constraints.
for sync in library ddp; do
    same=(--task Isaac-Cartpole-v0 --grad_sync "$sync" --run_name)
    train 150 "whole-$sync" rsl_rl "${same[@]}" "whole-$sync" --max_iterations 8
    train 150 "half-$sync" rsl_rl "${same[@]}" "half-$sync" --max_iterations 4
    train 150 "resumed-$sync" rsl_rl "${same[@]}" "resumed-$sync" --max_iterations 8 --resume
    step 30 "resumes-exactly-$sync" "$python" - "$sync" <<'PYTHON'
import json
import sys
from pathlib import Path


def losses(name: str) -> list[object]:
    (path,) = Path("logs/rsl_rl/cartpole").glob(f"*_{name}-{sys.argv[1]}/metrics.jsonl")
    return [json.loads(line)["losses"] for line in path.open()]


whole, half, resumed = map(losses, ("whole", "half", "resumed"))
print(f"{len(whole)} iterations, and {len(half)} and {len(resumed)}")
assert resumed and whole == half + resumed, "a resumed run has other losses than the unbroken one"
PYTHON
done
for task in $tasks; do
    # Recorded on one GPU and on two, so that they differ in nothing else, and as fast as contacts allow.
    step 400 "scaling-$task" "$python" "$scripts/benchmarks/scaling.py" --task "$task" --processes 1,2 --mode weak \
        --num_envs "$envs" --repeats "$repeats" --folder "$folder/scaling-$task" --json "$folder/scaling-$task.json" \
        -- --device "$device" --grad_sync library "agent.graph=$graph" ${physics:+env.sim.backend=mujoco_warp}
done
echo "$report"
exit "$failed"
