"""Choices by a small depth image and a vector: ``tests.seer:Test-Seer-v0``."""

import gymnasium

gymnasium.register(
    id="Test-Seer-v0",
    entry_point="tests.seer.env:SeerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": "tests.seer.env:SeerCfg",
        "rl_games_cfg_entry_point": "tests.seer:rl_games.yaml",
        "skrl_cfg_entry_point": "tests.seer:skrl.yaml",
    },
)
