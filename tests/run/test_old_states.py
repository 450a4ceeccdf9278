"""States of environments that checkpoints of format 1 hold have today's names."""

from __future__ import annotations

import torch

from envlab.run.old_states import env_state

BASE = {"common_step_counter": 3, "seed": 1, "tick": 4}
NEW_BASE = {"common_step_counter": 3, "random": {"base_seed": 1, "tick": 4}}


def test_gymnasiums():
    assert env_state(BASE) == {**NEW_BASE, "episode_length": None}


def test_a_populations():
    new = env_state({"members": {2: BASE}})
    assert new == {"by_index": {2: {**NEW_BASE, "episode_length": None}}}


def test_managers():
    old = BASE | {
        "sim": {"rows": 1},
        "episode_length": 2,
        "nan_guard": 3,
        "obs": {"policy": 4},
        "terrain": {"levels": 5},
        "task": {
            "actions": {"action": 6, "prev_action": 7, "terms": {"arm": {"target": 8}}},
            "rewards": {"params": {}, "weights": {"a": 2.0}, "terms": ["a"], "episode_sums": [9]},
            "events": {"push": 10},
            "commands": {
                "go": {
                    "command": 11,
                    "time_left": 12,
                    "metrics": {"m": 13},
                    "own": {"frames": 14, "_ends": 15, "_sampling": 16},
                }
            },
            "sensors": {"contacts": {"_history": 17}},
            "success": None,
            "encoder_bias": 18,
        },
    }
    assert env_state(old) == NEW_BASE | {
        "sim": {"rows": 1},
        "episode_length": 2,
        "nan_guard": {"bad_obs": 3},
        "obs_buf": {"policy": 4},
        "terrain": {"terrain_levels": 5},
        "action_manager": {"action": 6, "prev_action": 7, "terms": {"arm": {"target": 8}}},
        "reward_manager": {
            "episode_sums": {"a": 9},
            "new_params": {},
            "new_weights": {"a": 2.0},
        },
        "event_manager": {"time_left": {"push": 10}},
        "observation_manager": {"stages": {}},
        "memories": {},
        "command_manager": {
            "terms": {
                "go": {
                    "command": 11,
                    "time_left": 12,
                    "metrics": {"m": 13},
                    "frames": 14,
                    "ends": 15,
                }
            }
        },
        "sensor_manager": {"terms": {"contacts": {"history": 17}}},
        "success_manager": None,
        "encoder_bias": 18,
    }


def test_tasks_of_one_class():
    """``targets`` are those of a cabinet's robot, of one hand, or of two."""
    tasks = {
        "cabinet": {"targets": 1},
        "cube": {"targets": 1, "event_age": 2},
        "ball": {"targets": {"left": 1, "right": 2}},
    }
    new = {name: env_state(BASE | {"task": task, "terrain": None}) for name, task in tasks.items()}
    assert new["cabinet"]["targets"] == 1
    assert new["cube"]["hand"] == {"targets": 1}
    assert not new["cube"].keys() & {"event_age", "event_manager"}
    openai = env_state(BASE | {"task": tasks["cube"], "noise_biases": {"action_noise": 3}})
    assert set(openai["event_manager"]["ages"].values()) == {2}
    assert new["ball"]["hands"] == {"left": {"targets": 1}, "right": {"targets": 2}}
    assert all("task" not in one and one["terrain"] is None for one in new.values())


def test_navigations():
    new = env_state(BASE | {"clock": 1, "episodes": {"slot": 2}, "augmentation": 3})
    assert (new["clock"], new["agents"], new["augmentation"]) == (1, {"slot": 2}, {"bits": 3})


def test_the_analytic_backends():
    old = {
        "state": torch.arange(6.0).reshape(3, 2),
        "xfrc_applied": torch.zeros(2, 4, 6),
        "pushed": torch.tensor([1, 3]),
    }
    sim = env_state(BASE | {"sim": old})["sim"]
    assert sim["state"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert sim["pushed"].tolist() == [[False, True, False, True]] * 2
