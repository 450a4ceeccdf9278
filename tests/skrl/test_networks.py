"""The supported part of skrl's language for networks; no other code is executed."""

from __future__ import annotations

from typing import Any

import pytest

from envlab.errors import ConfigurationError
from envlab.registry import list_tasks, load_agent_values
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.library import ALGORITHMS
from envlab.skrl.networks import network_settings

CODE = "__import__('os').system('true')"


def cfg_with(**policy: Any) -> SkrlCfg:
    """Return the defaults with other settings of the policy."""
    cfg = SkrlCfg.of("ppo")
    cfg.models["policy"] |= policy
    return cfg


def part(**changed: Any) -> list[dict[str, Any]]:
    return [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "elu"} | changed]


def test_default_networks_stay_as_they_are():
    for algorithm in ALGORITHMS:
        cfg = SkrlCfg.of(algorithm)
        expected = {role: model for role, model in cfg.models.items() if role != "separate"}
        assert network_settings(cfg) == expected, algorithm


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_networks_of_all_tasks_stay_as_they_are(step: int):
    found = 0
    for task in list(list_tasks())[::step]:
        for key in (key for key in task.libraries if key.startswith("skrl")):
            cfg = SkrlCfg().with_task_values(load_agent_values(task, key) or {})
            expected = {role: model for role, model in cfg.models.items() if role != "separate"}
            assert network_settings(cfg) == expected, (task.id, key)
            found += 1
    assert found > 10


def test_the_language_that_skrl_documents_is_understood():
    for text in (
        "STATES",
        "concatenate([OBSERVATIONS, ACTIONS])",
        "permute(OBSERVATIONS['camera'], (0, 3, 1, 2)) / 255.0",
        "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)",
        "2.0 * OBSERVATIONS[:, 3:-1] - 0.5",
        "OBSERVATIONS[..., 0]",
    ):
        (found,) = network_settings(cfg_with(network=part(input=text)))["policy"]["network"]
        assert found["input"] == text


def test_a_part_reads_those_before_it_and_the_output_reads_all():
    network = [*part(), *part(name="head", input="concatenate([net, OBSERVATIONS])")]
    found = network_settings(cfg_with(network=network, output="2.0 * tanh(head)"))["policy"]
    assert found["network"][1]["input"] == "concatenate([net, OBSERVATIONS])"
    assert found["output"] == "2.0 * tanh(head)"
    with pytest.raises(ConfigurationError, match="not 'head'"):
        network_settings(cfg_with(network=part(input="head")))


OUTSIDE_THE_LANGUAGE: list[dict[Any, Any]] = [
    {"input": CODE},
    {"input": "OBSERVATIONS.__class__"},
    {"input": "OBSERVATIONS[__import__('os').system('true')]"},
    {"input": "concatenate([OBSERVATIONS], dim=print())"},
    {"input": "[OBSERVATIONS for _ in (1, 2)]"},
    {"input": "(lambda: OBSERVATIONS)()"},
    {"input": "OBSERVATIONS\nprint()"},
    {"input": "f'{OBSERVATIONS}'"},
    {"input": "9 ** 9 ** 9"},
    {"input": "1 + " * 5000 + "1"},
    {"input": "print"},
    {"input": 3},
    {"name": CODE},
    {"name": "net; import os"},
    {"name": "__class__"},
    {"name": None},
    {"layers": [CODE]},
    {"layers": [{"linear": CODE}]},
    {"layers": [{"linear": [8, CODE]}]},
    {"layers": [{"linear": {"features": CODE}}]},
    {"layers": [{"linear": {f"features=8), {CODE}, (8": 1}}]},
    {"layers": [{"conv2d": {"out_channels": 8, "kernel_size": 3, "padding": f'"+{CODE}+"'}}]},
    {"layers": [{CODE: 8}]},
    {"layers": [{"linear": 8, CODE: 8}]},
    {"layers": CODE},
    {"activations": CODE},
    {"activations": ["elu", CODE]},
    {CODE: 1},
]


def test_text_outside_the_language_is_refused():
    words = r"agent\.models\.policy\.network\.0.* correct agent\."
    for changed in OUTSIDE_THE_LANGUAGE:
        with pytest.raises(ConfigurationError, match=words):
            pytest.fail(f"{changed}: {network_settings(cfg_with(network=part(**changed)))}")


NO_SETTINGS: list[dict[str, Any]] = [
    {"output": CODE},
    {"output": "ACTIONS if True else ONE"},
    {"output": None},
    {"reduction": f'", role={CODE}, x="'},
    {"min_log_std": CODE},
    {"clip_actions": CODE},
    {"class": CODE},
    {"return_source": True},
    {"network": CODE},
]


def test_settings_of_a_network_are_numbers_or_known_words():
    for changed in NO_SETTINGS:
        with pytest.raises(ConfigurationError, match=r"agent\.models\.policy\.\w+ is "):
            pytest.fail(f"{changed}: {network_settings(cfg_with(**changed))}")


def test_a_role_is_a_name():
    cfg = SkrlCfg.of("ppo")
    cfg.models[f'policy", x={CODE}, y="'] = cfg.models.pop("policy")
    with pytest.raises(ConfigurationError, match="role is made of letters"):
        network_settings(cfg)
