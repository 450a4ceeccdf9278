"""Robots that walk; the table of their tasks."""

from envlab_tasks.registration import register

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
    "env_cfg:A1FlatEnvCfg",
    "legged_gym's A1 follows velocity commands on flat ground.",
    env=".env:LeggedGymEnv",
    libraries=["rsl_rl"],
)

ANYMAL_D = f"{__name__}.velocity.anymal_d"
register(
    ANYMAL_D,
    "Isaac-Velocity-Flat-Anymal-D-v0",
    "flat_env_cfg:AnymalDFlatEnvCfg",
    "A quadruped, ANYmal D, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
    rsl_rl_distillation="rsl_rl_flat_distillation_cfg",
)
register(
    ANYMAL_D,
    "Isaac-Velocity-Flat-Anymal-D-Play-v0",
    "flat_env_cfg:AnymalDFlatPlayEnvCfg",
    "ANYmal D on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    ANYMAL_D,
    "Isaac-Velocity-Rough-Anymal-D-v0",
    "rough_env_cfg:AnymalDRoughEnvCfg",
    "A quadruped, ANYmal D, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    ANYMAL_D,
    "Isaac-Velocity-Rough-Anymal-D-Play-v0",
    "rough_env_cfg:AnymalDRoughPlayEnvCfg",
    "ANYmal D on rough ground with few robots and tiles, no noise, no curriculum.",
    agents="{}_rough_ppo_cfg",
)
register(
    ANYMAL_D,
    "Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0",
    "actuator_net_env_cfg:AnymalDFlatActuatorNetEnvCfg",
    "ANYmal D follows commands on flat ground; an LSTM network is its actuators.",
    agents="{}_flat_ppo_cfg",
)

G1 = f"{__name__}.velocity.g1"
register(
    G1,
    "Isaac-Velocity-Flat-G1-v0",
    "flat_env_cfg:G1FlatEnvCfg",
    "A humanoid, Unitree G1 with hands, follows commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    G1,
    "Isaac-Velocity-Flat-G1-Play-v0",
    "flat_env_cfg:G1FlatPlayEnvCfg",
    "G1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    G1,
    "Isaac-Velocity-Rough-G1-v0",
    "rough_env_cfg:G1RoughEnvCfg",
    "A humanoid, Unitree G1 with hands, follows commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    G1,
    "Isaac-Velocity-Rough-G1-Play-v0",
    "rough_env_cfg:G1RoughPlayEnvCfg",
    "G1 walks straight on over rough ground: few robots and tiles, no noise.",
    agents="{}_rough_ppo_cfg",
)

G1_29 = f"{__name__}.velocity.g1_29"
register(
    G1_29,
    "Mjlab-Velocity-Flat-Unitree-G1",
    "flat_env_cfg:G1FlatEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows commands on flat ground.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Flat-Unitree-G1-Play",
    "flat_env_cfg:G1FlatPlayEnvCfg",
    "G1 with 29 joints on flat ground, faster, with no noise and no pushes.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Rough-Unitree-G1",
    "rough_env_cfg:G1RoughEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows commands on rough ground.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1_29,
    "Mjlab-Velocity-Rough-Unitree-G1-Play",
    "rough_env_cfg:G1RoughPlayEnvCfg",
    "G1 with 29 joints on few tiles of rough ground, no noise, no pushes.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)

GO1 = f"{__name__}.velocity.go1"
register(
    GO1,
    "Isaac-Velocity-Flat-Unitree-Go1-v0",
    "flat_env_cfg:Go1FlatEnvCfg",
    "A quadruped, Unitree Go1, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Flat-Unitree-Go1",
    "mjlab_flat_env_cfg:Go1FlatEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on flat ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    GO1,
    "Isaac-Velocity-Flat-Unitree-Go1-Play-v0",
    "flat_env_cfg:Go1FlatPlayEnvCfg",
    "Go1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Flat-Unitree-Go1-Play",
    "mjlab_flat_env_cfg:Go1FlatPlayEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on flat ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    GO1,
    "Isaac-Velocity-Rough-Unitree-Go1-v0",
    "rough_env_cfg:Go1RoughEnvCfg",
    "A quadruped, Unitree Go1, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Rough-Unitree-Go1",
    "mjlab_rough_env_cfg:Go1RoughEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on rough ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)
register(
    GO1,
    "Isaac-Velocity-Rough-Unitree-Go1-Play-v0",
    "rough_env_cfg:Go1RoughPlayEnvCfg",
    "Go1 on rough ground with few robots, no noise and no pushes, for playing.",
    agents="{}_rough_ppo_cfg",
)
register(
    GO1,
    "Mjlab-Velocity-Rough-Unitree-Go1-Play",
    "mjlab_rough_env_cfg:Go1RoughPlayEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on rough ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)

GO2 = f"{__name__}.velocity.go2"
register(
    GO2,
    "Isaac-Velocity-Flat-Unitree-Go2-v0",
    "flat_env_cfg:Go2FlatEnvCfg",
    "A quadruped, Unitree Go2, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO2,
    "Isaac-Velocity-Flat-Unitree-Go2-Play-v0",
    "flat_env_cfg:Go2FlatPlayEnvCfg",
    "Go2 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO2,
    "Isaac-Velocity-Rough-Unitree-Go2-v0",
    "rough_env_cfg:Go2RoughEnvCfg",
    "A quadruped, Unitree Go2, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    GO2,
    "Isaac-Velocity-Rough-Unitree-Go2-Play-v0",
    "rough_env_cfg:Go2RoughPlayEnvCfg",
    "Go2 on rough ground with few robots and tiles, no noise, no curriculum.",
    agents="{}_rough_ppo_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Flat-ActuatorNet-Unitree-Go2-v0",
    "actuator_net_env_cfg:Go2FlatActuatorNetEnvCfg",
    "Go2 follows commands on flat ground; a network is its actuators.",
    agents="{}_flat_ppo_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Flat-Blind-Unitree-Go2-v0",
    "blind_env_cfg:Go2FlatBlindEnvCfg",
    "Go2 follows commands on flat ground without its velocity; for students.",
    libraries=["rsl_rl"],
    agents="{}_flat_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_flat_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Blind-Unitree-Go2-v0",
    "blind_env_cfg:Go2RoughBlindEnvCfg",
    "Go2 follows commands on rough ground that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    "depth_env_cfg:Go2RoughDepthEnvCfg",
    "Go2 follows commands on rough ground by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-Play-v0",
    "depth_env_cfg:Go2RoughDepthPlayEnvCfg",
    "Go2 with a depth camera, few robots and tiles, no noise, no curriculum.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourEnvCfg",
    "Go2 goes over gaps, hurdles and steps, with a scan of the ground.",
    libraries=["rsl_rl"],
    agents="{}_parkour_ppo_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Blind-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourBlindEnvCfg",
    "Go2 goes over gaps, hurdles and steps that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_blind_distillation_cfg",
)
register(
    GO2,
    "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourDepthEnvCfg",
    "Go2 goes over gaps, hurdles and steps by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_depth_distillation_cfg",
)

H1 = f"{__name__}.velocity.h1"
register(
    H1,
    "Isaac-Velocity-Flat-H1-v0",
    "flat_env_cfg:H1FlatEnvCfg",
    "A humanoid, Unitree H1, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    H1,
    "Isaac-Velocity-Flat-H1-Play-v0",
    "flat_env_cfg:H1FlatPlayEnvCfg",
    "H1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    H1,
    "Isaac-Velocity-Rough-H1-v0",
    "rough_env_cfg:H1RoughEnvCfg",
    "A humanoid, Unitree H1, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    H1,
    "Isaac-Velocity-Rough-H1-Play-v0",
    "rough_env_cfg:H1RoughPlayEnvCfg",
    "H1 walks straight on over rough ground: few robots and tiles, no noise.",
    agents="{}_rough_ppo_cfg",
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
