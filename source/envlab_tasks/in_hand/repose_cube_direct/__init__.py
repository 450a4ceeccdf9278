"""Turn a cube in a hand to one orientation after another: Isaac Lab's direct tasks, and LEAP."""

from envlab_tasks.registration import register

register(
    __name__,
    "Envlab-Repose-Cube-Leap-Direct-v0",
    "leap_env_cfg:LeapHandEnvCfg",
    "Turn a cube in a LEAP hand, as Isaac-Repose-Cube-Allegro-Direct-v0 does.",
    env=".in_hand_env:InHandEnv",
    agents="leap_{}_ppo_cfg",
)
register(
    __name__,
    "Isaac-Repose-Cube-Allegro-Direct-v0",
    "allegro_env_cfg:AllegroHandEnvCfg",
    "Turn a larger cube in an Allegro hand.",
    env=".in_hand_env:InHandEnv",
    agents="allegro_{}_ppo_cfg",
)
register(
    __name__,
    "Isaac-Repose-Cube-Shadow-Direct-v0",
    "shadow_env_cfg:ShadowHandEnvCfg",
    "Turn a cube in a Shadow hand.",
    env=".in_hand_env:InHandEnv",
    agents="shadow_{}_ppo_cfg",
)
register(
    __name__,
    "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0",
    "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
    "Turn a cube in a Shadow hand by what a real one measures, with a critic that sees all.",
    env=".in_hand_env:InHandEnv",
    agents="shadow_openai_ff_{}_ppo_cfg",
)
register(
    __name__,
    "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0",
    "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
    "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0 for networks with a memory.",
    env=".in_hand_env:InHandEnv",
    libraries=["rl_games"],
    agents="shadow_openai_lstm_{}_ppo_cfg",
)
