"""Turn a cube in a hand to one orientation after another."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

for _id, _cfg, _description in (
    ("Isaac-Repose-Cube-Allegro-v0", "AllegroCubeEnvCfg", "Turn a cube in an Allegro hand."),
    (
        "Isaac-Repose-Cube-Allegro-Play-v0",
        "AllegroCubePlayEnvCfg",
        "Isaac-Repose-Cube-Allegro-v0 with few environments, for playing.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.repose_cube_env_cfg:{_cfg}",
            **_AGENTS,
            "description": _description,
        },
    )
