"""Policies that come installed are found by task and library, envlab's own and others'."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

import pytest

from envlab.config import read_yaml, to_dict
from envlab.distributed.checkpoint import load_checkpoint
from envlab.errors import CheckpointError
from envlab.registry import get_task, load_env_cfg
from envlab.run.pretrained import ENTRY_POINT_GROUP, Policy, find_policy, policies
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
    with pytest.raises(CheckpointError, match=f"of {ANT} by skrl .* a policy by rsl_rl: name"):
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


def of_envlab() -> list[Any]:
    return [
        pytest.param(one, id="-".join(one.folder.parts[-2:]))
        for one in policies()
        if one.folder.is_relative_to(ROOT)
    ]


def card_of(policy: Policy) -> str:
    """Return a policy's card in docs/results.md."""
    anchor = "-".join(policy.folder.parts[-2:]).replace("_ppo", "-ppo").lower()
    text = (ROOT / "docs/results.md").read_text().partition(f'<a id="{anchor}"></a>')[2]
    assert text, anchor
    return text.partition("\n## ")[0]


@pytest.mark.parametrize("policy", of_envlab())
def test_a_policy_is_judged_in_the_task_that_it_was_trained_for(policy: Policy):
    """Not in its variant to play, which has no noise and no pushes."""
    of = policy.evaluation
    assert of["task"] == policy.manifest["task"]
    place = ""
    if "measures" in of:  # navigation, in houses that no training saw
        assert of["place"] == "houses of test"
        place = " in houses of test"
    assert f"| measured | {of['num_episodes']:,} episodes{place} |" in card_of(policy)
    assert f"| {of['return']:.2f} ± {of['return_std']:.2f} (" in card_of(policy)


@pytest.mark.parametrize("policy", of_envlab())
def test_the_page_says_before_the_return_what_a_policys_training_changed(policy: Policy):
    """A return earned under other rewards, commands, terminations or events is another task's."""
    usual = load_env_cfg(get_task(policy.manifest["task"]))
    own = read_yaml(policy.folder / "params/env.yaml", usual)
    usual, own = to_dict(usual, "env"), to_dict(own, "env")
    parts = ("rewards", "commands", "terminations", "events", "curriculum", "observations")
    parts += ("depth_camera",)
    changed = [part for part in parts if usual.get(part) != own.get(part)]
    told = re.search(r"\| changed in training \| \*\*(.*)\*\*", card_of(policy))
    assert (told[1].split(", ") if told else []) == sorted(changed, key=list(own).index)


AT_MOST_ONE = {
    *("is_alive", "position_command_error_tanh", "upright", "variable_posture", "stand_still"),
    *("track_lin_vel_xy_exp", "track_ang_vel_z_exp", "track_lin_vel_xy_yaw_frame_exp"),
    *("track_ang_vel_z_world_exp", "track_linear_velocity", "track_angular_velocity"),
    *("feet_air_time_positive_biped", "orientation", "torso_height", "posture"),
    *("motion_global_anchor_position_error_exp", "motion_global_anchor_orientation_error_exp"),
    *("motion_relative_body_position_error_exp", "motion_relative_body_orientation_error_exp"),
    "motion_global_body_linear_velocity_error_exp",
    "motion_global_body_angular_velocity_error_exp",
}
"""Reward functions that return 1 at best, by reading: Gaussians, shares, 1 - tanh."""


def test_no_policy_returns_more_than_its_task_can_give():
    """Where every positive term is at most 1: the sum of weights, times the episode's seconds."""
    judged = []
    for policy in policies():
        cfg = to_dict(load_env_cfg(get_task(policy.manifest["task"])), "env")
        terms = [term for term in (cfg.get("rewards") or {}).values() if isinstance(term, dict)]
        positive = [term for term in terms if term["weight"] > 0.0]
        if positive and {term["func"].rpartition(":")[2] for term in positive} <= AT_MOST_ONE:
            most = sum(term["weight"] for term in positive) * cfg["episode_length_s"]
            assert policy.evaluation["return"] <= most, policy.folder
            judged.append(policy.manifest["task"])
    assert {"Isaac-Cartpole-v0", "Mjlab-Velocity-Flat-Unitree-G1"} <= set(judged)
