"""Robots that walk; the table of their tasks."""

from typing import Any

from envlab_tasks.registration import register

ISAAC_LAB = {
    "a1": ("Unitree-A1", "A quadruped, Unitree A1,", ["rsl_rl", "skrl"]),
    "anymal_b": ("Anymal-B", "A quadruped, ANYmal B,", ["rsl_rl", "skrl"]),
    "anymal_c": ("Anymal-C", "A quadruped, ANYmal C,", ["rsl_rl", "rl_games", "skrl"]),
    "anymal_d": ("Anymal-D", "A quadruped, ANYmal D,", ["rsl_rl", "rl_games", "skrl"]),
    "cassie": ("Cassie", "A biped, Agility's Cassie,", ["rsl_rl", "skrl"]),
    "g1": ("G1", "A humanoid, Unitree G1 with hands,", ["rsl_rl", "rl_games", "skrl"]),
    "go1": ("Unitree-Go1", "A quadruped, Unitree Go1,", ["rsl_rl", "rl_games", "skrl"]),
    "go2": ("Unitree-Go2", "A quadruped, Unitree Go2,", ["rsl_rl", "rl_games", "skrl"]),
    "h1": ("H1", "A humanoid, Unitree H1,", ["rsl_rl", "rl_games", "skrl"]),
}
"""Robots of Isaac Lab's velocity tasks by folder: the name in the ids, who it is, the libraries."""
FURTHER_AGENTS: dict[str, dict[str, Any]] = {
    "Isaac-Velocity-Flat-Anymal-D-v0": {"rsl_rl_distillation": "rsl_rl_flat_distillation_cfg"},
}
for folder, (name, robot, libraries) in ISAAC_LAB.items():
    for ground in ("flat", "rough"):
        for variant, play, end in (("", "", ""), ("_play", "-Play", " Few robots, no noise.")):
            task_id = f"Isaac-Velocity-{ground.title()}-{name}{play}-v0"
            register(
                f"{__name__}.velocity.{folder}",
                task_id,
                f"env_cfg:{ground}{variant}",
                f"{robot} follows commands on {ground} ground.{end}",
                libraries=libraries,
                agents=f"{{}}_{ground}_ppo_cfg",
                **FURTHER_AGENTS.get(task_id, {}),
            )

GETUP_G1_29 = f"{__name__}.getup.g1_29"
register(
    GETUP_G1_29,
    "Envlab-Getup-Flat-Unitree-G1-v0",
    "env_cfg:G1GetupEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, gets up after a fall.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)

GETUP_GO1 = f"{__name__}.getup.go1"
register(
    GETUP_GO1,
    "Playground-Go1Getup-v0",
    "env_cfg:Go1GetupEnvCfg",
    "A quadruped, Unitree Go1, gets up after a fall by Playground's rewards.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)

A1 = f"{__name__}.velocity.a1"
register(
    A1,
    "LeggedGym-Flat-A1-v0",
    "legged_gym_env_cfg:A1FlatEnvCfg",
    "legged_gym's A1 follows velocity commands on flat ground.",
    env=".env:LeggedGymEnv",
    libraries=["rsl_rl"],
)

ANYMAL_D = f"{__name__}.velocity.anymal_d"
register(
    ANYMAL_D,
    "Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0",
    "env_cfg:flat_by_network",
    "ANYmal D follows commands on flat ground; an LSTM network is its actuators.",
    agents="{}_flat_ppo_cfg",
)

G1_29 = f"{__name__}.velocity.g1_29"
register(
    G1_29,
    "Mjlab-Velocity-Flat-Unitree-G1",
    "env_cfg:flat",
    "A humanoid, Unitree G1 with 29 joints, follows commands on flat ground.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
    rsl_rl_distillation="rsl_rl_flat_distillation_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Flat-Unitree-G1-Play",
    "env_cfg:flat_play",
    "G1 with 29 joints on flat ground, faster, with no noise and no pushes.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Rough-Unitree-G1",
    "env_cfg:rough",
    "A humanoid, Unitree G1 with 29 joints, follows commands on rough ground.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Rough-Unitree-G1-Play",
    "env_cfg:rough_play",
    "G1 with 29 joints on few tiles of rough ground, no noise, no pushes.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)

GO1 = f"{__name__}.velocity.go1"
register(
    GO1,
    "Mjlab-Velocity-Flat-Unitree-Go1",
    "mjlab_env_cfg:flat",
    "Unitree Go1 walks by mjlab's rewards on flat ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Flat-Unitree-Go1-Play",
    "mjlab_env_cfg:flat_play",
    "Unitree Go1 walks by mjlab's rewards on flat ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Rough-Unitree-Go1",
    "mjlab_env_cfg:rough",
    "Unitree Go1 walks by mjlab's rewards on rough ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Rough-Unitree-Go1-Play",
    "mjlab_env_cfg:rough_play",
    "Unitree Go1 walks by mjlab's rewards on rough ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)

GO2 = f"{__name__}.velocity.go2"
register(
    GO2,
    "Envlab-Velocity-Flat-ActuatorNet-Unitree-Go2-v0",
    "env_cfg:flat_by_network",
    "Go2 follows commands on flat ground; a network is its actuators.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Flat-Blind-Unitree-Go2-v0",
    "blind_env_cfg:flat",
    "Go2 follows commands on flat ground without its velocity; for students.",
    libraries=["rsl_rl"],
    agents="{}_flat_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_flat_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Blind-Unitree-Go2-v0",
    "blind_env_cfg:rough",
    "Go2 follows commands on rough ground that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    "depth_env_cfg:rough",
    "Go2 follows commands on rough ground by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-Play-v0",
    "depth_env_cfg:rough_play",
    "Go2 with a depth camera, few robots and tiles, no noise, no curriculum.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Unitree-Go2-v0",
    "parkour_env_cfg:parkour",
    "Go2 goes over gaps, hurdles and steps, with a scan of the ground.",
    libraries=["rsl_rl"],
    agents="{}_parkour_ppo_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Blind-Unitree-Go2-v0",
    "parkour_env_cfg:blind",
    "Go2 goes over gaps, hurdles and steps that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0",
    "parkour_env_cfg:depth",
    "Go2 goes over gaps, hurdles and steps by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_depth_distillation_cfg",
)

SPOT = f"{__name__}.velocity.spot"
register(
    SPOT,
    "Isaac-Velocity-Flat-Spot-v0",
    "flat_env_cfg:SpotFlatEnvCfg",
    "A quadruped, Spot, follows fast velocity commands at a trot on cobblestones.",
    libraries=["rsl_rl", "skrl"],
    agents="{}_flat_ppo_cfg",
)
register(
    SPOT,
    "Isaac-Velocity-Flat-Spot-Play-v0",
    "flat_env_cfg:SpotFlatPlayEnvCfg",
    "Spot on few tiles, with few robots, for playing.",
    libraries=["rsl_rl", "skrl"],
    agents="{}_flat_ppo_cfg",
)

T1 = f"{__name__}.velocity.t1"
register(
    T1,
    "Playground-T1JoystickFlatTerrain-v0",
    "env_cfg:T1JoystickEnvCfg",
    "A humanoid, Booster T1, walks by Playground's rewards on flat ground.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)
