"""The values that distinguish the runs of a sweep."""

from __future__ import annotations

import re

from envlab.config import expand_sweep, parse_overrides
from envlab.training.sweep import folder_label, short_keys, swept_values


def test_values_that_differ_between_runs_are_swept():
    jobs = expand_sweep(parse_overrides(["a.b=1,2", "c=3", "d.e=x,y"]))
    assert swept_values(jobs) == [{"a.b": b, "d.e": e} for b in "12" for e in "xy"]
    assert swept_values([parse_overrides(["c=3"])]) == [{}]


def test_keys_are_shortened_while_they_stay_distinct():
    keys = ["agent.actor.hidden_dims", "agent.critic.hidden_dims", "env.dt", "seed", "agent.seed"]
    short = ["actor.hidden_dims", "critic.hidden_dims", "dt", "seed", "agent.seed"]
    assert short_keys(keys) == short


def test_a_label_is_safe_in_a_path():
    values = {"a.dims": "[64, 64]", "a.path": "../../x y;$(z)", "a.long": "1" * 300}
    label = folder_label(values)
    assert re.fullmatch(r"[\w.=,+-]{1,80}", label)
    assert label.startswith("dims=64-64,path=..-..-x-y-z,long=111")
    assert folder_label({}) == ""
