"""Turn a cube in a hand to one orientation after another."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Repose-Cube-Allegro-v0",
    "repose_cube_env_cfg:AllegroCubeEnvCfg",
    "Turn a cube in an Allegro hand.",
)
register(
    __name__,
    "Isaac-Repose-Cube-Allegro-Play-v0",
    "repose_cube_env_cfg:AllegroCubePlayEnvCfg",
    "Isaac-Repose-Cube-Allegro-v0 with few environments, for playing.",
)
