"""A quadruped that follows velocity commands: ANYbotics ANYmal D."""

import gymnasium

_STUDENTS = {
    "rsl_rl_distillation_cfg_entry_point": f"{__name__}.agents:rsl_rl_flat_distillation_cfg.yaml"
}

for _ground, _play, _description in (
    ("Flat", "", "A quadruped, ANYmal D, follows velocity commands on flat ground."),
    (
        "Flat",
        "Play",
        "ANYmal D on flat ground with few robots, no noise and no pushes, for playing.",
    ),
    ("Rough", "", "A quadruped, ANYmal D, follows velocity commands on rough ground."),
    (
        "Rough",
        "Play",
        "ANYmal D on rough ground with few robots and tiles, no noise, no curriculum.",
    ),
):
    _text = _ground.lower()
    gymnasium.register(
        id=f"Isaac-Velocity-{_ground}-Anymal-D{_play and '-' + _play}-v0",
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.{_text}_env_cfg:AnymalD{_ground}{_play}EnvCfg",
            "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_{_text}_ppo_cfg.yaml",
            "rl_games_cfg_entry_point": f"{__name__}.agents:rl_games_{_text}_ppo_cfg.yaml",
            "skrl_cfg_entry_point": f"{__name__}.agents:skrl_{_text}_ppo_cfg.yaml",
            **(_STUDENTS if _ground == "Flat" and not _play else {}),
            "description": _description,
        },
    )
