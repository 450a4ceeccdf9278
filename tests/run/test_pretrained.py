"""Policies that come installed are found by task and library, envlab's own and others'."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from envlab.distributed.checkpoint import load_checkpoint
from envlab.errors import CheckpointError
from envlab.run.pretrained import ENTRY_POINT_GROUP, find_policy, policies
from tests.launcher import ROOT

ANT = "Isaac-Ant-v0"


def test_a_policy_is_small_and_complete_for_playing():
    assert len({one.manifest["task"] for one in policies()}) >= 7
    for one in policies():
        values = load_checkpoint(one.checkpoint)
        assert one.checkpoint.stat().st_size < 3 << 20
        assert values["task"] == one.manifest["task"]
        assert not any(values["ranks"])
        assert one.evaluation["num_episodes"] >= 64
        assert (one.folder / "params/env.yaml").is_file()
        assert "/tmp" not in (one.folder / "run.json").read_text()


def test_where_there_is_none_the_existing_ones_are_named():
    assert find_policy("rsl_rl", {}, {ANT}).folder.parts[-2:] == (ANT, "rsl_rl")
    with pytest.raises(CheckpointError, match=f"of {ANT} by skrl .* There is one by rsl_rl: name"):
        find_policy("skrl", {"algorithm": "ppo"}, {ANT})
    with pytest.raises(CheckpointError, match=f"There are some of .*{ANT}, "):
        find_policy("rsl_rl", {}, {"Isaac-Velocity-Flat-G1-v0"})


def test_another_package_brings_policies(tmp_path: Path, monkeypatch):
    folder = tmp_path / "their_policies/Their-Task-v0/rsl_rl"
    folder.mkdir(parents=True)
    (tmp_path / "their_policies/__init__.py").write_text("raise SystemError('it is not imported')")
    (folder / "policy.pt").touch()
    (folder / "run.json").write_text(json.dumps({"task": "Their-Task-v0", "library": "rsl_rl"}))
    point = importlib.metadata.EntryPoint("theirs", "their_policies", ENTRY_POINT_GROUP)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    assert find_policy("rsl_rl", {}, {"Their-Task-v0"}).folder == folder


def test_every_policy_is_in_the_page():
    text = (ROOT / "docs/policies.md").read_text()
    for one in policies():
        assert f"| {one.evaluation['return']:.2f} ± {one.evaluation['return_std']:.2f} |" in text
