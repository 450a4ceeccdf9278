"""Throw a ball from one hand into another: two agents that must act together."""

import gymnasium

_AGENTS = f"{__name__}.agents"

gymnasium.register(
    id="Isaac-Shadow-Hand-Over-Direct-v0",
    entry_point=f"{__name__}.shadow_hand_over_env:ShadowHandOverEnv",
    vector_entry_point=f"{__name__}.shadow_hand_over_env:ShadowHandOverEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.shadow_hand_over_env:ShadowHandOverEnvCfg",
        "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_ppo_cfg.yaml",
        "skrl_cfg_entry_point": f"{_AGENTS}:skrl_ppo_cfg.yaml",
        "skrl_ippo_cfg_entry_point": f"{_AGENTS}:skrl_ippo_cfg.yaml",
        "skrl_mappo_cfg_entry_point": f"{_AGENTS}:skrl_mappo_cfg.yaml",
        "description": "Pass a ball from one Shadow hand to another; each hand is an agent.",
    },
)
