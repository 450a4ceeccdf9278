"""A quadruped that follows velocity commands: Unitree Go1, Isaac Lab's tasks and mjlab 1.6.0's."""

import gymnasium

_AGENTS = f"{__name__}.agents"


def _register(task_id: str, cfg: str, description: str, **agents: str) -> None:
    """Register a task, whose configuration is ``cfg`` of this folder, with files of agents."""
    gymnasium.register(
        id=task_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.{cfg}",
            **{f"{key}_cfg_entry_point": f"{_AGENTS}:{file}.yaml" for key, file in agents.items()},
            "description": description,
        },
    )


for _ground, _text in (("Flat", "flat"), ("Rough", "rough")):
    for _play, _words in (("", ""), ("Play", ", with few robots and no noise, for playing")):
        _suffix = _play and f"-{_play}"
        _register(
            f"Isaac-Velocity-{_ground}-Unitree-Go1{_suffix}-v0",
            f"{_text}_env_cfg:Go1{_ground}{_play}EnvCfg",
            f"A quadruped, Unitree Go1, follows velocity commands on {_text} ground{_words}.",
            rsl_rl=f"rsl_rl_{_text}_ppo_cfg",
            rl_games=f"rl_games_{_text}_ppo_cfg",
            skrl=f"skrl_{_text}_ppo_cfg",
        )
        _register(
            f"Mjlab-Velocity-{_ground}-Unitree-Go1{_suffix}",
            f"mjlab_{_text}_env_cfg:Go1{_ground}{_play}EnvCfg",
            f"Unitree Go1 walks by mjlab's rewards on {_text} ground{_words}.",
            rsl_rl=f"mjlab_rsl_rl_{_text}_ppo_cfg",
        )
