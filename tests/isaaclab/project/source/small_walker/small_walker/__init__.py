"""A project as Isaac Lab's template makes it: one task, its robot, and its agent."""

import gymnasium

gymnasium.register(
    id="Small-Walker-v0",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.walker_env_cfg:WalkerEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.walker_env_cfg:WalkerPPORunnerCfg",
    },
)
