"""Fly a small quadcopter to a goal and hover there."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Quadcopter-Direct-v0",
    entry_point=f"{__name__}.quadcopter_env:QuadcopterEnv",
    vector_entry_point=f"{__name__}.quadcopter_env:QuadcopterEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.quadcopter_env:QuadcopterEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "description": "Fly a Crazyflie to a goal and hover there, by thrust and moments.",
    },
)
