"""Flight; the table of their tasks."""

from envlab_tasks.registration import register

QUADCOPTER = f"{__name__}.quadcopter"
register(
    QUADCOPTER,
    "Isaac-Quadcopter-Direct-v0",
    "quadcopter_env:QuadcopterEnvCfg",
    "Fly a Crazyflie to a goal and hover, by thrust and moments.",
    env=".quadcopter_env:QuadcopterEnv",
)
