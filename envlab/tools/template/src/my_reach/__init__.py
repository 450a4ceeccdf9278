"""A two-link arm whose fingertip follows a goal.

Only strings are registered, so that listing tasks imports neither torch nor a simulator.
"""

import gymnasium

gymnasium.register(
    id="My-Reach-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:ReachEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "A two-link arm brings its fingertip to a goal.",
    },
)
