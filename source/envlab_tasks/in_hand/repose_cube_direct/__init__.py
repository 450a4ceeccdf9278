"""Turn a cube in a hand to one orientation after another: Isaac Lab's direct tasks, and LEAP."""

import gymnasium

_LIBRARIES = ("rsl_rl", "rl_games", "skrl")

for _id, _cfg, _agents, _libraries, _description in (
    (
        "Envlab-Repose-Cube-Leap-Direct-v0",
        "leap_env_cfg:LeapHandEnvCfg",
        "leap",
        _LIBRARIES,
        "Turn a cube in a LEAP hand, as Isaac-Repose-Cube-Allegro-Direct-v0 does.",
    ),
    (
        "Isaac-Repose-Cube-Allegro-Direct-v0",
        "allegro_env_cfg:AllegroHandEnvCfg",
        "allegro",
        _LIBRARIES,
        "Turn a larger cube in an Allegro hand.",
    ),
    (
        "Isaac-Repose-Cube-Shadow-Direct-v0",
        "shadow_env_cfg:ShadowHandEnvCfg",
        "shadow",
        _LIBRARIES,
        "Turn a cube in a Shadow hand.",
    ),
    (
        "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0",
        "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
        "shadow_openai_ff",
        _LIBRARIES,
        "Turn a cube in a Shadow hand by what a real one measures, with a critic that sees all.",
    ),
    (
        "Isaac-Repose-Cube-Shadow-OpenAI-LSTM-Direct-v0",
        "shadow_openai_env_cfg:ShadowHandOpenAIEnvCfg",
        "shadow_openai_lstm",
        ("rl_games",),
        "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0 for networks with a memory.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point=f"{__name__}.in_hand_env:InHandEnv",
        vector_entry_point=f"{__name__}.in_hand_env:InHandEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.{_cfg}",
            **{
                f"{library}_cfg_entry_point": f"{__name__}.agents:{_agents}_{library}_ppo_cfg.yaml"
                for library in _libraries
            },
            "description": _description,
        },
    )
