from __future__ import annotations

from dataclasses import dataclass

import pytest
from config_sample import AgentCfg, EveryTypeCfg

from envlab.config import paths
from envlab.config.encoding import field_types
from envlab.errors import ConfigurationError


def test_paths_are_all_groups_and_leaves_in_order():
    below = "max_iterations run_name hidden_dims hidden_dims.0 hidden_dims.1 algorithm".split()
    below += ["algorithm.learning_rate", "algorithm.schedule"]
    assert paths(AgentCfg(), "agent") == ["agent", *(f"agent.{name}" for name in below)]


def test_paths_include_dict_keys_and_leave_out_derived_fields():
    found = paths(EveryTypeCfg(required=1), "env")
    assert "env.named.a.mode" in found
    assert "env.terms.0.weight" in found
    assert "env.derived" not in found


def test_an_annotation_that_does_not_exist_is_explained():
    @dataclass
    class Broken:
        value: NoSuchType  # noqa: F821

    with pytest.raises(ConfigurationError, match="'NoSuchType' is not defined"):
        field_types(Broken)
