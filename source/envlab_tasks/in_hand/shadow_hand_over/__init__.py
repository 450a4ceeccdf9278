"""Throw a ball from one hand into another: two agents that must act together."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Shadow-Hand-Over-Direct-v0",
    "shadow_hand_over_env:ShadowHandOverEnvCfg",
    "Pass a ball from one Shadow hand to another; each hand is an agent.",
    env=".shadow_hand_over_env:ShadowHandOverEnv",
    libraries=["rl_games", "skrl"],
    skrl_ippo="skrl_ippo_cfg",
    skrl_mappo="skrl_mappo_cfg",
)
