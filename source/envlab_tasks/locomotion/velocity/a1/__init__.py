"""legged_gym's A1 on a plane, as a task of envlab: the example of docs/isaacgym.md."""

from envlab_tasks.registration import register

register(
    __name__,
    "LeggedGym-Flat-A1-v0",
    "env_cfg:A1FlatEnvCfg",
    "legged_gym's A1 follows velocity commands on flat ground.",
    env=".env:LeggedGymEnv",
    libraries=["rsl_rl"],
)
