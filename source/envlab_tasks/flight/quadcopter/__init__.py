"""Fly a small quadcopter to a goal and hover there."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Quadcopter-Direct-v0",
    "quadcopter_env:QuadcopterEnvCfg",
    "Fly a Crazyflie to a goal and hover there, by thrust and moments.",
    env=".quadcopter_env:QuadcopterEnv",
)
