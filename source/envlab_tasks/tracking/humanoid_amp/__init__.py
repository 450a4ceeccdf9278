"""A humanoid that moves in the style of a clip, by adversarial motion priors: Isaac Lab's tasks."""

import gymnasium

for _name, _words in (("Walk", "walks"), ("Run", "runs"), ("Dance", "dances")):
    gymnasium.register(
        id=f"Isaac-Humanoid-AMP-{_name}-Direct-v0",
        entry_point=f"{__name__}.humanoid_amp_env:HumanoidAmpEnv",
        vector_entry_point=f"{__name__}.humanoid_amp_env:HumanoidAmpEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.humanoid_amp_env_cfg:HumanoidAmp{_name}EnvCfg",
            "skrl_amp_cfg_entry_point": f"{__name__}.agents:skrl_{_name.lower()}_amp_cfg.yaml",
            "description": f"A humanoid {_words} in the style of a motion clip (AMP, direct).",
        },
    )
