"""Balance a pole on a cart that is pushed along a rail."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Cartpole-v0",
    "cartpole_env_cfg:CartpoleEnvCfg",
    "Balance a pole on a cart (manager-based).",
    rsl_rl_distillation="rsl_rl_distillation_cfg",
)
register(
    __name__,
    "Isaac-Cartpole-Direct-v0",
    "cartpole_direct_env:CartpoleDirectEnvCfg",
    "Balance a pole on a cart; the episode ends if the pole falls (direct).",
    env=".cartpole_direct_env:CartpoleDirectEnv",
    agents="{}_direct_ppo_cfg",
)
register(
    __name__,
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "cartpole_showcase_env:CartpoleDiscreteEnvCfg",
    "Balance a pole on a cart by choosing one of three forces.",
    env=".cartpole_showcase_env:CartpoleDiscreteEnv",
    libraries=["rl_games", "skrl"],
    agents="{}_discrete_ppo_cfg",
    skrl_dqn="skrl_dqn_cfg",
)
register(
    __name__,
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "cartpole_showcase_env:CartpoleMultiDiscreteEnvCfg",
    "Balance a pole on a cart by choosing a strength and a direction.",
    env=".cartpole_showcase_env:CartpoleMultiDiscreteEnv",
    libraries=["rl_games", "skrl"],
    agents="{}_multidiscrete_ppo_cfg",
)
register(
    __name__,
    "Isaac-Cartpole-Depth-Camera-Direct-v0",
    "cartpole_camera_env:CartpoleDepthCameraEnvCfg",
    "Balance a pole on a cart, observed by depth images.",
    env=".cartpole_camera_env:CartpoleDepthCameraEnv",
    agents="{}_camera_ppo_cfg",
)
