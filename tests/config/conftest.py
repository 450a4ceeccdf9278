"""The sample config as fixtures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# The sample is a separate module, so that `config_sample:is_alive` can be imported by name; with
# pytest's import mode "importlib" its folder is not on the path.
sys.path.insert(0, str(Path(__file__).parent))

from config_sample import AgentCfg, BalanceEnvCfg


@pytest.fixture
def env_cfg() -> BalanceEnvCfg:
    return BalanceEnvCfg()


@pytest.fixture
def agent_cfg() -> AgentCfg:
    return AgentCfg()


@pytest.fixture
def roots(env_cfg: BalanceEnvCfg, agent_cfg: AgentCfg) -> dict[str, object]:
    return {"env": env_cfg, "agent": agent_cfg}
