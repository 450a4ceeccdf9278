"""Balance two poles, one on top of the other, on a cart: two agents that must act together."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Cart-Double-Pendulum-Direct-v0",
    entry_point=f"{__name__}.cart_double_pendulum_env:CartDoublePendulumEnv",
    vector_entry_point=f"{__name__}.cart_double_pendulum_env:CartDoublePendulumEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cart_double_pendulum_env:CartDoublePendulumEnvCfg",
        "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "skrl_ippo_cfg_entry_point": f"{_AGENTS}:skrl_ippo_cfg.yaml",
        "skrl_mappo_cfg_entry_point": f"{_AGENTS}:skrl_mappo_cfg.yaml",
        "description": "Balance two linked poles on a cart; one agent pushes, the other twists.",
    },
)
