"""Balance two poles, one on top of the other, on a cart: two agents that must act together."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "cart_double_pendulum_env:CartDoublePendulumEnvCfg",
    "Balance two linked poles on a cart; one agent pushes, the other twists.",
    env=".cart_double_pendulum_env:CartDoublePendulumEnv",
    skrl_ippo="skrl_ippo_cfg",
    skrl_mappo="skrl_mappo_cfg",
)
