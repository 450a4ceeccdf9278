"""A script for one process, as legged_gym's are, which the launcher runs on two ranks."""

from __future__ import annotations

import os
import sys

import torch
from isaacgym import gymapi
from rsl_rl.runners import OnPolicyRunner

from tests.isaacgym.test_rsl_rl_1 import CFG, Env

folder = sys.argv[1]
torch.manual_seed(1)
gymapi.acquire_gym().create_sim(0, -1, gymapi.SIM_PHYSX, gymapi.SimParams())
torch.distributed.init_process_group("nccl", rank=0, world_size=2)  # as rl_games does
torch.cuda.set_device(1)
draws = torch.rand(4, device="cuda:0")
env = Env()
env.seed.manual_seed(torch.initial_seed())
runner = OnPolicyRunner(env, CFG, os.path.join(folder, "log"), "cpu")
before = {name: value.clone() for name, value in runner.alg.actor_critic.state_dict().items()}
runner.learn(3)
end = {
    "draws": draws,
    "before": before,
    "model": runner.alg.actor_critic.state_dict(),
    "rate": runner.alg.learning_rate,
    "wraps": type(runner.alg.actor).__name__,
}
torch.save(end, f"{folder}/rank{os.environ['RANK']}.pt")
