"""Grasp a cube, lift it, and bring it to a place."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

gymnasium.register(
    id="Isaac-Lift-Cube-Franka-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.lift_env_cfg:FrankaCubeLiftEnvCfg",
        **_AGENTS,
        "description": "Lift a cube with a Panda, controlled by joint positions.",
    },
)

gymnasium.register(
    id="Isaac-Lift-Cube-Franka-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.lift_env_cfg:FrankaCubeLiftPlayEnvCfg",
        **_AGENTS,
        "description": "Isaac-Lift-Cube-Franka-v0 with few environments, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Lift-Cube-Franka-IK-Abs-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.lift_env_cfg:FrankaCubeLiftIkAbsEnvCfg",
        **_AGENTS,
        "description": "Lift a cube with a Panda, controlled by poses of its hand.",
    },
)

gymnasium.register(
    id="Isaac-Lift-Cube-Franka-IK-Rel-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.lift_env_cfg:FrankaCubeLiftIkRelEnvCfg",
        **_AGENTS,
        "description": "Lift a cube with a Panda, controlled by displacements of its hand.",
    },
)
