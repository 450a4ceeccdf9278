"""Visual navigation in houses. Importing this package registers its tasks."""

from envlab.registry import register

_TASKS = {
    "object": ("ObjectNav", "Find an object of a class", "by depth and goal masks", ()),
    "point": ("PointNav", "Go to a point", "by depth images", ("blind",)),
}
"""By folder: the name in ids, the description, what the variant of depth sees, more agents."""
_ENV = "envlab_navigation.backends:make_nav_env"

for _folder, (_name, _goal, _by_depth, _more) in _TASKS.items():
    _agents = f"{__name__}.{_folder}.agents"
    for _images in ("Depth", "RGB"):
        _files = {
            **{f"{key}_cfg": f"{key}_{_images.lower()}" for key in ("ddppo", "rl_games", "skrl")},
            **{f"skrl_{key}_cfg": f"skrl_{key}" for key in _more},
        }
        for _play in ("", "Play"):
            register(
                id="-".join(filter(None, (f"Nav-{_name}", _images, _play, "v0"))),
                entry_point=_ENV,
                kwargs={
                    "kind": "NavEnv",
                    "env_cfg_entry_point": f"{__name__}.{_folder}.{_folder}_env_cfg:"
                    f"{_name}{_images}{_play}EnvCfg",
                    "expert_entry_point": "envlab_navigation.expert:Expert",
                    **{
                        f"{key}_entry_point": f"{_agents}:{_files[key]}_ppo_cfg.yaml"
                        for key in _files
                    },
                    "description": f"{_goal} in a house, "
                    + (_by_depth if _images == "Depth" else "by colour images")
                    + ".",
                },
            )
