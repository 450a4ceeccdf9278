"""legged_gym's A1 on a plane, as a task of envlab: the example of docs/isaacgym.md."""

import gymnasium

gymnasium.register(
    id="LeggedGym-Flat-A1-v0",
    entry_point=f"{__name__}.env:LeggedGymEnv",
    vector_entry_point=f"{__name__}.env:LeggedGymEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:A1FlatEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "legged_gym's A1 follows velocity commands on flat ground.",
    },
)
