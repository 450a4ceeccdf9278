"""A humanoid that follows a motion: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""

import gymnasium

_AGENTS = f"{__name__}.agents"

for _name, _words in (
    ("", "follows a motion clip"),
    ("-No-State-Estimation", "follows a clip without knowing where it is and how fast"),
):
    for _play, _cfg, _more in (("", "", "."), ("-Play", "Play", ", from its start, unpushed.")):
        gymnasium.register(
            id=f"Mjlab-Tracking-Flat-Unitree-G1{_name}{_play}",
            entry_point="envlab.envs:ManagerEnv",
            vector_entry_point="envlab.envs:ManagerEnv",
            disable_env_checker=True,
            order_enforce=False,
            kwargs={
                "env_cfg_entry_point": (
                    f"{__name__}.env_cfg:G1Tracking{_name.replace('-', '')}{_cfg}EnvCfg"
                ),
                "rsl_rl_cfg_entry_point": f"{_AGENTS}:rsl_rl_ppo_cfg.yaml",
                "description": f"A humanoid, Unitree G1 with 29 joints, {_words}{_more}",
            },
        )
