"""A humanoid that follows velocity commands: Unitree G1 with 29 joints, mjlab 1.6.0's task."""

import gymnasium

for _play, _cfg, _description in (
    ("", "", "A humanoid, Unitree G1 with 29 joints, follows commands on flat ground."),
    ("-Play", "Play", "G1 with 29 joints on flat ground, faster, with no noise and no pushes."),
):
    gymnasium.register(
        id=f"Mjlab-Velocity-Flat-Unitree-G1{_play}",
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.flat_env_cfg:G1Flat{_cfg}EnvCfg",
            "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_flat_ppo_cfg.yaml",
            "description": _description,
        },
    )
