"""The page of results follows from the policies' evaluations, and a script repeats them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from envlab.errors import ConfigurationError
from tests.launcher import ROOT
from tests.scripts.of_scripts import load


@pytest.fixture(scope="module")
def results() -> Any:
    return load("documentation/results")


@pytest.fixture
def check() -> Any:
    return load("documentation/check_results")


def test_the_page_of_results_is_up_to_date(results):
    assert results.page() == results.PAGE.read_text()


def test_each_policy_has_a_card_that_says_what_was_measured(results):
    assert len(results.cards()) >= 21
    text = results.PAGE.read_text()
    for card, policy in results.cards():
        of = policy.evaluation
        assert of["num_episodes"] >= 64
        assert results.play_command(policy, of["num_episodes"]) in text
        assert "(" in card["says"].format_map(results.Measures(of))
    for task in ("Isaac-Ant-v0", "Isaac-Velocity-Flat-Unitree-Go2-v0"):
        (of,) = [one.evaluation for card, one in results.cards() if card["task"] == task]
        assert of["num_episodes"] == 1024


def test_no_card_has_a_command_that_needs_a_run_of_its_author(results):
    page = results.PAGE.read_text()
    assert "--checkpoint=logs" not in page
    assert "--resume" not in page


def test_an_interval_of_a_policy_that_never_failed_says_how_rarely_it_may(results):
    of = {"success_rate": 1.0, "intervals": {"success_rate": [0.9963, 1.0]}}
    assert results.Measures(of)["success_rate%"] == "100.0 % (99.6 to 100.0 %)"


def test_a_policy_without_a_card_is_named(results, tmp_path, monkeypatch):
    cards = tmp_path / "results.yaml"
    cards.write_text("- {task: Isaac-Ant-v0, says: Runs., cores: one core}")
    monkeypatch.setattr(results, "CARDS", cards)
    with pytest.raises(ConfigurationError, match=r"Isaac-Humanoid-v0/fast_sac.* have no card"):
        results.cards()
    cards.write_text("- {task: Nav-PointNav-Depth-v0, says: Goes., cores: one core}")
    with pytest.raises(ConfigurationError, match=r"2 policies fit .* Name a library"):
        results.cards()


def changed(of: Mapping[str, Any], factor: float) -> dict[str, Any]:
    ends = {name: [factor * end for end in found] for name, found in of["intervals"].items()}
    return {**of, **{name: factor * of[name] for name in ends}, "intervals": ends}


def test_an_evaluation_that_is_repeated_confirms_its_card_or_not(check, monkeypatch, capsys):
    of = json.loads(
        (ROOT / "source/envlab_policies/Isaac-Ant-v0/rsl_rl/evaluation.json").read_text()
    )
    for factor, code in ((1.0, 0), (1.005, 0), (0.9, 1)):
        monkeypatch.setattr(check, "repeated", lambda _, factor=factor: changed(of, factor))
        assert check.main(["Isaac-Ant-v0"]) == code
        printed = capsys.readouterr().out
        assert "envlab play rsl_rl --task=Isaac-Ant-v0 --checkpoint=pretrained" in printed
        assert ("MISSED return: " in printed) is bool(code)
        assert ("confirmed" in printed) is not bool(code)
    del of["intervals"]["return"]
    monkeypatch.setattr(check, "repeated", lambda _: of)
    assert check.main(["Isaac-Ant-v0"]) == 1
    assert "is not measured any more" in capsys.readouterr().out
