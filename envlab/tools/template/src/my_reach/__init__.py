"""A two-link arm whose fingertip follows a goal.

Only strings are registered, so that listing tasks imports neither torch nor a simulator.
"""

from envlab.registry import register

register(
    id="My-Reach-v0",
    entry_point="envlab.envs:ManagerEnv",
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:ReachEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "A two-link arm brings its fingertip to a goal.",
    },
)
