"""The table of SLM-Lab's specs, as its script counts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envlab.errors import ConfigurationError
from envlab_populations.hogwild import atari
from tests.launcher import ROOT
from tests.scripts.test_documentation import load


def test_slm_labs_specs_are_counted_by_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "SLM-Lab/slm_lab/spec"
    folder.mkdir(parents=True)
    read = json.loads((ROOT / "source/envlab_populations/specs/dqn/dqn.json").read_text())
    spec = read["dqn_cartpole"]
    hydra = spec | {"agent": spec["agent"] | {"algorithm": {"name": "HydraDQN"}}}
    monkeypatch.setattr(atari, "has_ale", lambda: False)
    game = spec | {"env": spec["env"] | {"name": "ALE/Pong-v5"}}
    filled = spec | {"env": spec["env"] | {"name": "${env}"}}
    specs = {"read": spec, "hydra": hydra, "game": game, "of_mujoco": filled}
    specs["figures"] = {"mean": 1.0}
    (folder / "specs.json").write_text(json.dumps(specs))
    page = tmp_path / "page.md"
    module = load("from_slm_lab")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setitem(module.FILLINGS, "env", {"mujoco": "CartPole-v1"})
    page.write_text(f"Before.\n{module.BEGIN}old\n{module.END}After.\n")
    assert module.main([str(tmp_path / "SLM-Lab")]) == 0
    kinds = ["is read", "Atari, which needs ale-py", "HydraDQN, which SLM-Lab itself no longer has"]
    rows = [f"| {kind} | 1 |" for kind in kinds] + ["| is read, with `-s` | 1 |", "| all | 4 |"]
    text = page.read_text()
    assert [row for row in rows if row not in text] == []
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    with pytest.raises(ConfigurationError, match="has no slm_lab/spec"):
        module.main([str(tmp_path)])
