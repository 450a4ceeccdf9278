"""Bring the hand of an arm to a pose in space."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

for _id, _cfg, _description in (
    (
        "Isaac-Reach-Franka-v0",
        "FrankaReachEnvCfg",
        "Move a Panda's hand to a pose, controlled by joint positions.",
    ),
    (
        "Isaac-Reach-Franka-Play-v0",
        "FrankaReachPlayEnvCfg",
        "Isaac-Reach-Franka-v0 without noise, for playing.",
    ),
    (
        "Isaac-Reach-Franka-IK-Abs-v0",
        "FrankaReachIkAbsEnvCfg",
        "Move a Panda's hand to a pose, controlled by poses of the hand.",
    ),
    (
        "Isaac-Reach-Franka-IK-Abs-Play-v0",
        "FrankaReachIkAbsPlayEnvCfg",
        "Isaac-Reach-Franka-IK-Abs-v0 without noise, for playing.",
    ),
    (
        "Isaac-Reach-Franka-IK-Rel-v0",
        "FrankaReachIkRelEnvCfg",
        "Move a Panda's hand to a pose, controlled by displacements of the hand.",
    ),
    (
        "Isaac-Reach-Franka-IK-Rel-Play-v0",
        "FrankaReachIkRelPlayEnvCfg",
        "Isaac-Reach-Franka-IK-Rel-v0 without noise, for playing.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.reach_env_cfg:{_cfg}",
            **_AGENTS,
            "description": _description,
        },
    )

for _id, _cfg, _description in (
    (
        "Isaac-Reach-UR10-v0",
        "UR10ReachEnvCfg",
        "Move the end of a UR10 to a pose, controlled by joint positions.",
    ),
    (
        "Isaac-Reach-UR10-Play-v0",
        "UR10ReachPlayEnvCfg",
        "Isaac-Reach-UR10-v0 without noise, for playing.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.ur10_env_cfg:{_cfg}",
            **{
                f"{library}_cfg_entry_point": f"{__name__}.agents:ur10_{library}_ppo_cfg.yaml"
                for library in ("rsl_rl", "rl_games", "skrl")
            },
            "description": _description,
        },
    )
