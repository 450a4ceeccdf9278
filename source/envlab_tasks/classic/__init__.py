"""Classic control; the table of their tasks."""

from envlab_tasks.registration import register

ANT = f"{__name__}.ant"
register(
    ANT,
    "Isaac-Ant-v0",
    "ant_env_cfg:AntEnvCfg",
    "Run on four legs (manager-based).",
    libraries=["fast_sac", "rsl_rl", "rl_games", "skrl"],
    fast_sac="fast_sac_cfg",
)
register(
    ANT,
    "Isaac-Ant-Direct-v0",
    "ant_direct_env:AntDirectEnvCfg",
    "Run on four legs, without sensing contact forces at the feet (direct).",
    env=".ant_direct_env:AntDirectEnv",
    agents="{}_direct_ppo_cfg",
)

CART_DOUBLE_PENDULUM = f"{__name__}.cart_double_pendulum"
register(
    CART_DOUBLE_PENDULUM,
    "Isaac-Cart-Double-Pendulum-Direct-v0",
    "cart_double_pendulum_env:CartDoublePendulumEnvCfg",
    "Balance two linked poles on a cart; one agent pushes, the other twists.",
    env=".cart_double_pendulum_env:CartDoublePendulumEnv",
    skrl_ippo="skrl_ippo_cfg",
    skrl_mappo="skrl_mappo_cfg",
)

CARTPOLE = f"{__name__}.cartpole"
register(
    CARTPOLE,
    "Isaac-Cartpole-v0",
    "cartpole_env_cfg:CartpoleEnvCfg",
    "Balance a pole on a cart (manager-based).",
    rsl_rl_distillation="rsl_rl_distillation_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-Direct-v0",
    "cartpole_direct_env:CartpoleDirectEnvCfg",
    "Balance a pole on a cart; the episode ends if the pole falls (direct).",
    env=".cartpole_direct_env:CartpoleDirectEnv",
    agents="{}_direct_ppo_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0",
    "cartpole_showcase_env:CartpoleDiscreteEnvCfg",
    "Balance a pole on a cart by choosing one of three forces.",
    env=".cartpole_showcase_env:CartpoleDiscreteEnv",
    libraries=["rl_games", "skrl"],
    agents="{}_discrete_ppo_cfg",
    skrl_dqn="skrl_dqn_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0",
    "cartpole_showcase_env:CartpoleMultiDiscreteEnvCfg",
    "Balance a pole on a cart by choosing a strength and a direction.",
    env=".cartpole_showcase_env:CartpoleMultiDiscreteEnv",
    libraries=["rl_games", "skrl"],
    agents="{}_multidiscrete_ppo_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-Depth-Camera-Direct-v0",
    "cartpole_camera_env:CartpoleDepthCameraEnvCfg",
    "Balance a pole on a cart, observed by depth images.",
    env=".cartpole_camera_env:CartpoleCameraEnv",
    agents="{}_camera_ppo_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-RGB-Camera-Direct-v0",
    "cartpole_camera_env:CartpoleRGBCameraEnvCfg",
    "Balance a pole on a cart, observed by colour images.",
    env=".cartpole_camera_env:CartpoleCameraEnv",
    agents="{}_camera_ppo_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-RGB-v0",
    "cartpole_camera_env_cfg:CartpoleRGBEnvCfg",
    "Balance a pole on a cart, observed by colour images (manager-based).",
    agents="{}_image_ppo_cfg",
)
register(
    CARTPOLE,
    "Isaac-Cartpole-Depth-v0",
    "cartpole_camera_env_cfg:CartpoleDepthEnvCfg",
    "Balance a pole on a cart, observed by depth images (manager-based).",
    agents="{}_image_ppo_cfg",
)

HUMANOID = f"{__name__}.humanoid"
register(
    HUMANOID,
    "Isaac-Humanoid-v0",
    "humanoid_env_cfg:HumanoidEnvCfg",
    "Run on two legs (manager-based).",
)
register(
    HUMANOID,
    "Isaac-Humanoid-Direct-v0",
    "humanoid_direct_env:HumanoidDirectEnvCfg",
    "Run on two legs, without sensing contact forces at the feet (direct).",
    env=".humanoid_direct_env:HumanoidDirectEnv",
    agents="{}_direct_ppo_cfg",
)
