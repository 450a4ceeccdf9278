"""Measures over episodes, by class and by distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envlab.training.evaluation import Evaluation
from envlab_navigation import metrics
from envlab_navigation.metrics import MEASURES, summarise, table


def episodes(num: int = 4) -> dict[str, np.ndarray]:
    values = {name: np.zeros(num) for name in MEASURES}
    values["success"][:2] = 1.0
    values["spl"][:2] = (1.0, 0.5)
    where = {"goal": np.array([1, 1, 6, 1]), "start_distance": np.array([1.0, 4, 12, 5])}
    return values | where | {"end": np.array([0, 0, 2, 1])}


def test_groups_are_all_classes_and_bands():
    summary = summarise(episodes())
    counts = {name: group["num_episodes"] for name, group in summary.items()}
    bands = {"0 to 3 m": 1, "3 to 6 m": 2, "from 10 m": 1}
    assert counts == {"all": 4, "Apple": 3, "HousePlant": 1, **bands}
    assert summary["all"]["spl"][0] == pytest.approx(0.375)
    assert summary["Apple"]["success"][0] == pytest.approx(2 / 3)
    assert summary["3 to 6 m"]["success"][0] == 0.5
    assert summary["all"]["ends"] == {"success": 0.5, "failed_end": 0.25, "time_out": 0.25}
    assert summary["HousePlant"]["ends"] == {"time_out": 1.0}


def test_the_interval_is_that_of_a_mean():
    rng = np.random.default_rng(1)
    values = {name: rng.normal(size=400) for name in MEASURES}
    values |= {"goal": np.zeros(400, int), "start_distance": np.ones(400)}
    values["end"] = np.zeros(400, int)
    mean, low, high = summarise(values)["all"]["success"]
    assert mean == pytest.approx(values["success"].mean())
    assert high - low == pytest.approx(2 * 1.96 * values["success"].std() / 20, rel=0.1)
    assert summarise(values) == summarise(values)


def test_episodes_of_one_house_count_as_one_where_they_are_alike():
    """40 houses with 25 equal episodes each are known as well as 40 episodes are."""
    rng = np.random.default_rng(1)
    by_house = rng.normal(size=40)
    values = {name: np.repeat(by_house, 25) for name in MEASURES}
    values |= {name: np.zeros(1000, int) for name in ("goal", "end")}
    values |= {"start_distance": np.ones(1000), "house": np.repeat(np.arange(40) + 7, 25)}
    mean, low, high = summarise(values)["all"]["spl"]
    assert mean == pytest.approx(by_house.mean())
    assert high - low == pytest.approx(2 * 1.96 * by_house.std() / 40**0.5, rel=0.15)
    alone = values | {"house": np.arange(1000)}
    _, low_alone, high_alone = summarise(alone)["all"]["spl"]
    assert high - low > 4 * (high_alone - low_alone)


def test_a_table_gives_intervals_and_why_episodes_ended_and_detours_are_a_group():
    text = table(summarise(episodes()))
    assert "Apple" in text
    assert "0.50 (" in text
    assert "Episodes ended by: success 50%, failed_end 25%, time_out 25%" in text
    summary = summarise(episodes() | {"detour": np.array([1.0, 1.05, 1.1, 2.0])})
    assert summary["detours (1.1 or more)"]["num_episodes"] == 2
    assert not any("detour" in name for name in summarise(episodes() | {"detour": np.ones(4)}))


def test_measures_of_navigation_are_part_of_the_summary():
    names = ("success", "spl", "soft_spl", "distance_to_goal", "path_length", "collisions", "steps")
    episodes = {name: np.ones(2) for name in (*names, "goal", "start_distance", "end")}
    played = {"returns": torch.ones(2), "lengths": torch.ones(2), "last_second": {}}
    played |= {"episodes": episodes, "measures": metrics, "place": "houses of val"}
    evaluation = Evaluation(**played)
    text = "\n".join(evaluation.lines(10))
    assert "soft SPL" in text
    assert "Apple" in text  # the class of the goal with the number 1
    assert "In houses of val:" in text
    values = evaluation.as_dict()
    assert values["place"] == "houses of val"
    assert values["measures"]["Apple"]["success"] == (1.0, 1.0, 1.0)
