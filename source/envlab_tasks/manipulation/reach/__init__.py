"""Bring the hand of an arm to a pose in space."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

gymnasium.register(
    id="Isaac-Reach-Franka-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachEnvCfg",
        **_AGENTS,
        "description": "Move a Panda's hand to a pose, controlled by joint positions.",
    },
)

gymnasium.register(
    id="Isaac-Reach-Franka-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachPlayEnvCfg",
        **_AGENTS,
        "description": "Isaac-Reach-Franka-v0 without noise, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Reach-Franka-IK-Abs-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachIkAbsEnvCfg",
        **_AGENTS,
        "description": "Move a Panda's hand to a pose, controlled by poses of the hand.",
    },
)

gymnasium.register(
    id="Isaac-Reach-Franka-IK-Abs-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachIkAbsPlayEnvCfg",
        **_AGENTS,
        "description": "Isaac-Reach-Franka-IK-Abs-v0 without noise, for playing.",
    },
)

gymnasium.register(
    id="Isaac-Reach-Franka-IK-Rel-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachIkRelEnvCfg",
        **_AGENTS,
        "description": "Move a Panda's hand to a pose, controlled by displacements of the hand.",
    },
)

gymnasium.register(
    id="Isaac-Reach-Franka-IK-Rel-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.reach_env_cfg:FrankaReachIkRelPlayEnvCfg",
        **_AGENTS,
        "description": "Isaac-Reach-Franka-IK-Rel-v0 without noise, for playing.",
    },
)
