#!/usr/bin/env bash
# Proves envlab on this machine's NVIDIA GPU within half an hour, and writes one report.
#   scripts/gpu/prove.sh [--cpu] [FOLDER]
# FOLDER (default: logs/prove) gets report.md and the output of each step. --cpu walks the same steps at a
# small size on Warp's CPU device, to see that nothing in them is broken before a GPU is paid for.
# Needs: envlab importable by $PYTHON (default: python). Exits with 1 if a step failed.
set -uo pipefail

folder_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

device=cuda:0 sizes="1024 4096 16384" envs=4096 iterations=150 limit=1800
throughput_tasks="Isaac-Cartpole-v0 Isaac-Ant-v0 Isaac-Humanoid-v0 Isaac-Velocity-Flat-Unitree-Go2-v0
    Isaac-Velocity-Rough-Unitree-Go2-v0 Isaac-Lift-Cube-Franka-v0"
training_tasks="Isaac-Cartpole-v0 Isaac-Ant-v0 Isaac-Velocity-Flat-Unitree-Go2-v0"
libraries="rsl_rl rl_games skrl"
graph=on recorded_tasks="Isaac-Cartpole-v0 Isaac-Velocity-Flat-Unitree-Go2-v0"
marked=(-m gpu "$PWD/tests")
if [ "${1:-}" = --cpu ]; then
    shift
    device=cpu sizes=16 envs=16 iterations=2 libraries=rsl_rl
    throughput_tasks=Isaac-Cartpole-v0 training_tasks=Isaac-Cartpole-v0 graph=auto recorded_tasks=Isaac-Cartpole-v0
    marked=("$PWD/tests/sim/test_warp_backend.py")
fi
# shellcheck source=scripts/gpu/steps.sh
. scripts/gpu/steps.sh "${1:-logs/prove}"

scripts=$PWD/scripts
train() { # LIBRARY TASK FLAGS...
    local library=$1 task=$2
    shift 2
    set -- "$scripts/reinforcement_learning/$library/train.py" --headless --task "$task" --device "$device" "$@"
    case $library in
    rl_games) set -- "$@" "agent.params.config.max_epochs=$iterations" ;;
    *) set -- "$@" "agent.max_iterations=$iterations" ;;
    esac
    printf '%s\n' "$@"
}

step 400 marked-tests "$python" -m pytest -q -p no:cacheprovider "${marked[@]}"
step 60 doctor "$python" -m envlab.cli doctor
step 200 warm "$python" -m envlab.cli warm --task Isaac-Velocity-Flat-Unitree-Go2-v0 --device "$device"
for task in $throughput_tasks; do
    # shellcheck disable=SC2086
    step 120 "throughput-$task" "$python" "$scripts/benchmarks/throughput.py" --task "$task" \
        --device "$device" --num_envs $sizes --json "$folder/throughput-$task.json" env.sim.backend=mujoco_warp
done
for task in $recorded_tasks; do
    for setting in "$graph" compiled; do
        name=graph-$setting-$task
        # shellcheck disable=SC2086
        step 120 "$name" "$python" "$scripts/benchmarks/throughput.py" --task "$task" --device "$device" \
            "env.graph=$setting" env.sim.backend=mujoco_warp --num_envs $sizes --json "$folder/$name.json"
    done
done
for library in $libraries; do
    for task in $training_tasks; do
        mapfile -t command < <(train "$library" "$task" --num_envs "$envs" env.sim.backend=mujoco_warp)
        step 150 "train-$library-$task" "$python" "${command[@]}"
    done
done
mapfile -t command < <(train rsl_rl Isaac-Cartpole-v0 --num_envs "$envs" --distributed agent.audit_interval=5 \
    env.sim.backend=mujoco_warp)
step 150 distributed "$python" -m torch.distributed.run --standalone --nproc_per_node=1 "${command[@]}"
iterations=$((iterations < 20 ? iterations : 20))
# Of a task without contacts: mujoco_warp 4.0 does not order the rows of constraints.
exact=(--num_envs "$envs" env.sim.backend=mujoco_warp env.sim.deterministic=true --run_name)
for run in first second; do
    mapfile -t command < <(train rsl_rl Isaac-Cartpole-v0 "${exact[@]}" "$run")
    step 150 "repeats-$run" "$python" "${command[@]}"
done
step 30 repeats-equally "$python" - <<'PYTHON'
import json
from pathlib import Path

runs = sorted(Path("logs/rsl_rl").glob("cartpole/*/metrics.jsonl"))[-2:]
first, second = ([json.loads(line)["losses"] for line in run.open()] for run in runs)
print(f"{len(first)} iterations of {runs[0].parent.name} and {runs[1].parent.name}")
assert first == second, "the losses of two equal runs with env.sim.deterministic=true differ"
PYTHON
echo "$report"
exit $failed
