"""A script for one process, as legged_gym's are, which the launcher runs on two ranks."""

from __future__ import annotations

import copy
import os
import sys

import torch
from isaacgym import gymapi
from rl_games.torch_runner import Runner
from rsl_rl.runners import OnPolicyRunner

from envlab.errors import EnvlabError
from tests.isaacgym.test_rsl_rl_1 import CFG, Env

folder, rank = sys.argv[1], int(os.environ["RANK"])


class Cfg:
    """As legged_gym's: classes of classes."""

    seed = rank

    class control:
        stiffness = {"hip": 20.0 + rank}


def refusal(env: Env, cfg: dict) -> str:
    """Return the sentence that a training ends in."""
    try:
        OnPolicyRunner(env, cfg, None, "cpu").learn(2)
    except EnvlabError as error:
        return str(error)
    return ""


torch.manual_seed(1)
gymapi.acquire_gym().create_sim(0, -1, gymapi.SIM_PHYSX, gymapi.SimParams())
torch.distributed.init_process_group("nccl", rank=0, world_size=2)  # as rl_games does
torch.cuda.set_device(1)
draws = torch.rand(4, device="cuda:0")
other, different = Env(), copy.deepcopy(CFG) | {"seed": rank}
other.cfg, different["algorithm"]["gamma"] = Cfg(), 0.99 - 0.09 * rank
refused = refusal(other, different)
broken = Env()
library = {"name": "a2c_continuous", "config": {"gamma": 0.99 - rank, "device": f"cuda:{rank}"}}
try:
    Runner().load({"params": {"algo": library, "config": {}}})
    rl_games = ""
except EnvlabError as error:
    rl_games = str(error)
if rank:
    broken.get_observations = lambda: torch.full((broken.num_envs, broken.num_obs), torch.nan)
not_finite = refusal(broken, CFG)
env = Env()
env.seed.manual_seed(torch.initial_seed())
runner = OnPolicyRunner(env, CFG, os.path.join(folder, "log"), "cpu")
before = {name: value.clone() for name, value in runner.alg.actor_critic.state_dict().items()}
runner.learn(3)
end = {
    "refused": refused,
    "rl_games": rl_games,
    "not_finite": not_finite,
    "draws": draws,
    "before": before,
    "model": runner.alg.actor_critic.state_dict(),
    "rate": runner.alg.learning_rate,
    "wraps": type(runner.alg.actor).__name__,
}
torch.save(end, f"{folder}/rank{rank}.pt")
