"""``--config_kwargs``: JSON arrives in the configuration as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envlab.config import compose
from envlab.errors import ConfigurationError
from envlab_bridge.config_kwargs import overrides_of, read_config_kwargs

ODD = {
    "apostrophe": "it's",
    "quotes": 'say "a"',
    "backslash": "a\\b",
    "backslash at the end": "end\\",
    "backslash before an apostrophe": "q\\'x",
    "grammar": "a,b=[c]:{d}",
    "word null": "null",
    "digits": "12",
    "nothing": "",
    "other letters": "größe 日本",
    "null": None,
    "true": True,
    "small": 1e-5,
    "infinite": float("inf"),
    "list": [1, "a'b", [True, None], {"key": "x y"}],
    "empty list": [],
}


def test_a_value_arrives_in_the_configuration():
    for name, value in ODD.items():
        values = {"agent": {"inner": {"x": value}}}
        (word,) = overrides_of(json.loads(json.dumps(values)))
        found = compose({"agent": {"inner": {"x": value}}}, [word])["agent"]["inner"]["x"]
        assert (found, type(found)) == (value, type(value)), name


def test_nested_values_are_an_override_for_each_leaf():
    values = {"agent": {"a": 1, "b": {"c": 2}}, "env": {"scene": {}}, "agent.d": False}
    assert overrides_of(values) == ["agent.a=1", "agent.b.c=2", "env.scene={}", "agent.d=false"]


def test_the_number_of_nodes_must_be_that_of_the_hosts():
    assert overrides_of({"distributed_nodes": 3}, num_hosts=3) == []
    with pytest.raises(ConfigurationError, match=r"says distributed_nodes: 3, but .* 2 hosts"):
        overrides_of({"distributed_nodes": 3}, num_hosts=2)


def test_a_file_may_hold_it(tmp_path: Path):
    file = tmp_path / "kwargs.json"
    file.write_text('{"agent": {"seed": 1}}')
    assert read_config_kwargs(str(file)) == {"agent": {"seed": 1}}


def test_what_is_no_json_or_has_no_meaning_is_one_sentence():
    for given, sentence in (
        ("{'agent': 1}", "is not JSON: .* at character 2 .* JSON has double quotes"),
        ("nowhere.json", "neither JSON nor a file that can be read"),
        ('{"agents": {"a": 1}}', "'agents', but .* below env and agent. Did you mean agent\\?"),
        ('{"agent": {"a b": 1}}', "'agent.a b', but keys are names"),
        ('{"agent": {"x": [{"a:b": 1}]}}', "has the key 'a:b', but keys are names"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            overrides_of(read_config_kwargs(given))
