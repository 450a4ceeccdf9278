"""A humanoid that follows velocity commands: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""

import gymnasium

for _ground, _play, _description in (
    ("Flat", "", "A humanoid, Unitree G1 with 29 joints, follows commands on flat ground."),
    ("Flat", "Play", "G1 with 29 joints on flat ground, faster, with no noise and no pushes."),
    ("Rough", "", "A humanoid, Unitree G1 with 29 joints, follows commands on rough ground."),
    ("Rough", "Play", "G1 with 29 joints on few tiles of rough ground, no noise, no pushes."),
):
    gymnasium.register(
        id=f"Mjlab-Velocity-{_ground}-Unitree-G1{_play and '-' + _play}",
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": (
                f"{__name__}.{_ground.lower()}_env_cfg:G1{_ground}{_play}EnvCfg"
            ),
            "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_{_ground.lower()}_ppo_cfg.yaml",
            "description": _description,
        },
    )
