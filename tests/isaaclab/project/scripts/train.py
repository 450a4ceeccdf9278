"""Trains a task by rsl_rl, as the scripts of Isaac Lab's projects do."""

import argparse
import os
import sys

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--task")
parser.add_argument("--num_envs", type=int)
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--log_dir")
parser.add_argument("--load")
AppLauncher.add_app_launcher_args(parser)
flags, overrides = parser.parse_known_args()
sys.argv = [sys.argv[0], *overrides]
app_launcher = AppLauncher(flags)

import gymnasium  # noqa: E402
import small_walker  # noqa: E402, F401
from isaaclab.utils.io import dump_yaml  # noqa: E402
from isaaclab_rl.rsl_rl import (  # noqa: E402
    RslRlVecEnvWrapper,
    export_policy_as_jit,
)
from isaaclab_tasks.utils.hydra import hydra_task_config  # noqa: E402
from rsl_rl.runners import OnPolicyRunner  # noqa: E402


@hydra_task_config(flags.task, "rsl_rl_cfg_entry_point")
def main(env_cfg, agent_cfg):
    env_cfg.scene.num_envs = flags.num_envs
    env_cfg.seed = agent_cfg.seed
    if flags.distributed:
        env_cfg.sim.device = agent_cfg.device = f"cuda:{app_launcher.local_rank}"
        env_cfg.seed = agent_cfg.seed + app_launcher.local_rank
    env = RslRlVecEnvWrapper(gymnasium.make(flags.task, cfg=env_cfg))
    runner = OnPolicyRunner(
        env, agent_cfg.to_dict(), log_dir=flags.log_dir, device=agent_cfg.device
    )
    if flags.load:
        runner.load(flags.load)
        policy = runner.get_inference_policy(device=env.unwrapped.device)
        print("ACTIONS", policy(env.get_observations()).shape)
        export_policy_as_jit(
            runner.alg.policy, normalizer=runner.obs_normalizer, path=flags.log_dir
        )
        return
    dump_yaml(os.path.join(flags.log_dir, "params", "env.yaml"), env_cfg)
    runner.learn(num_learning_iterations=agent_cfg.max_iterations, init_at_random_ep_len=True)
    mass = env.unwrapped.scene["robot"].data.default_mass.sum().item() / flags.num_envs
    print(f"MASS {mass}\n", end="", flush=True)  # at once, or ranks write into each other's lines
    env.close()


if __name__ == "__main__":
    main()
    app_launcher.app.close()
