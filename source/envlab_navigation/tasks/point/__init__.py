"""Go to a point that is given relative to the agent, seeing the obstacles in between."""

import gymnasium

_AGENTS = f"{__name__}.agents"

for _images in ("Depth", "RGB"):
    for _play in ("", "Play"):
        gymnasium.register(
            id="-".join(filter(None, ("Nav-PointNav", _images, _play, "v0"))),
            entry_point="envlab_navigation.backends:make_nav_env",
            vector_entry_point="envlab_navigation.backends:make_nav_env",
            disable_env_checker=True,
            order_enforce=False,
            kwargs={
                "kind": "NavEnv",
                "env_cfg_entry_point": f"{__name__}.point_env_cfg:PointNav{_images}{_play}EnvCfg",
                "ddppo_cfg_entry_point": f"{_AGENTS}:ddppo_{_images.lower()}_ppo_cfg.yaml",
                "expert_entry_point": "envlab_navigation.expert:Expert",
                "rl_games_cfg_entry_point": f"{_AGENTS}:rl_games_{_images.lower()}_ppo_cfg.yaml",
                "skrl_cfg_entry_point": f"{_AGENTS}:skrl_{_images.lower()}_ppo_cfg.yaml",
                "skrl_blind_cfg_entry_point": f"{_AGENTS}:skrl_blind_ppo_cfg.yaml",
                "description": "Go to a point in a house"
                + (", by depth images." if _images == "Depth" else ", by colour images."),
            },
        )
