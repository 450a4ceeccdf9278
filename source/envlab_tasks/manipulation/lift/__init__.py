"""Grasp a cube, lift it, and bring it to a place."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

for _id, _cfg, _description in (
    (
        "Isaac-Lift-Cube-Franka-v0",
        "FrankaCubeLiftEnvCfg",
        "Lift a cube with a Panda, controlled by joint positions.",
    ),
    (
        "Isaac-Lift-Cube-Franka-Play-v0",
        "FrankaCubeLiftPlayEnvCfg",
        "Isaac-Lift-Cube-Franka-v0 with few environments, for playing.",
    ),
    (
        "Isaac-Lift-Cube-Franka-IK-Abs-v0",
        "FrankaCubeLiftIkAbsEnvCfg",
        "Lift a cube with a Panda, controlled by poses of its hand.",
    ),
    (
        "Isaac-Lift-Cube-Franka-IK-Rel-v0",
        "FrankaCubeLiftIkRelEnvCfg",
        "Lift a cube with a Panda, controlled by displacements of its hand.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.lift_env_cfg:{_cfg}",
            **_AGENTS,
            "description": _description,
        },
    )
