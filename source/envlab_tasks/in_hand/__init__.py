"""Hands that turn objects; the table of their tasks."""

from envlab_tasks.registration import register

REPOSE_CUBE = f"{__name__}.repose_cube"
register(
    REPOSE_CUBE,
    "Isaac-Repose-Cube-Allegro-v0",
    "repose_cube_env_cfg:AllegroCubeEnvCfg",
    "Turn a cube in an Allegro hand.",
)
register(
    REPOSE_CUBE,
    "Isaac-Repose-Cube-Allegro-Play-v0",
    "repose_cube_env_cfg:play",
    "Isaac-Repose-Cube-Allegro-v0 with few environments, for playing.",
)
register(
    REPOSE_CUBE,
    "Isaac-Repose-Cube-Allegro-NoVelObs-v0",
    "repose_cube_env_cfg:without_velocities",
    "Turn a cube in an Allegro hand without seeing velocities.",
    rsl_rl="no_vel_obs_rsl_rl_ppo_cfg",
)
register(
    REPOSE_CUBE,
    "Isaac-Repose-Cube-Allegro-NoVelObs-Play-v0",
    "repose_cube_env_cfg:without_velocities_play",
    "Isaac-Repose-Cube-Allegro-NoVelObs-v0 with few environments, for playing.",
    rsl_rl="no_vel_obs_rsl_rl_ppo_cfg",
)

REPOSE_CUBE_DIRECT = f"{__name__}.repose_cube_direct"
register(
    REPOSE_CUBE_DIRECT,
    "Envlab-Repose-Cube-Leap-Direct-v0",
    "leap_env_cfg:LeapHandEnvCfg",
    "Turn a cube in a LEAP hand, like Isaac-Repose-Cube-Allegro-Direct-v0.",
    env=".in_hand_env:InHandEnv",
    agents="leap_{}_ppo_cfg",
)
register(
    REPOSE_CUBE_DIRECT,
    "Isaac-Repose-Cube-Allegro-Direct-v0",
    "allegro_env_cfg:AllegroHandEnvCfg",
    "Turn a larger cube in an Allegro hand.",
    env=".in_hand_env:InHandEnv",
    agents="allegro_{}_ppo_cfg",
)
register(
    REPOSE_CUBE_DIRECT,
    "Isaac-Repose-Cube-Shadow-Direct-v0",
    "shadow_env_cfg:ShadowHandEnvCfg",
    "Turn a cube in a Shadow hand.",
    env=".in_hand_env:InHandEnv",
    agents="shadow_{}_ppo_cfg",
)
register(
    REPOSE_CUBE_DIRECT,
    "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0",
    "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
    "Turn a cube in a Shadow hand from a real hand's measurements, with a critic that sees all.",
    env=".in_hand_env:InHandEnv",
    agents="shadow_openai_ff_{}_ppo_cfg",
)
register(
    REPOSE_CUBE_DIRECT,
    "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0",
    "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
    "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0 for networks with a memory.",
    env=".in_hand_env:InHandEnv",
    libraries=["rl_games"],
    agents="shadow_openai_lstm_{}_ppo_cfg",
)

SHADOW_HAND_OVER = f"{__name__}.shadow_hand_over"
register(
    SHADOW_HAND_OVER,
    "Isaac-Shadow-Hand-Over-Direct-v0",
    "shadow_hand_over_env:ShadowHandOverEnvCfg",
    "Pass a ball from one Shadow hand to another; each hand is an agent.",
    env=".shadow_hand_over_env:ShadowHandOverEnv",
    libraries=["rl_games", "skrl"],
    skrl_ippo="skrl_ippo_cfg",
    skrl_mappo="skrl_mappo_cfg",
)
