"""The strategy of docs/evolve.md, as its reader would install it."""

from __future__ import annotations

import re
import sys
import tomllib
from types import ModuleType

import pytest

from envlab.plugins import Plugins
from envlab_populations.population import strategy
from tests.launcher import ROOT
from tests.trained import TASK, session_of

RATES = [
    *("agent.algorithm.schedule=fixed", "--population_size=4"),
    "population.ranges.agent.algorithm.learning_rate=[1e-4,1e-2]",
]


def test_the_pages_own_strategy_is_an_entry_and_chooses_who_copies(monkeypatch: pytest.MonkeyPatch):
    page = (ROOT / "docs/evolve.md").read_text().partition("### A strategy of your own")[2]
    code, project = re.findall(r"```\w+\n(.*?)```", page, re.DOTALL)[:2]
    module = ModuleType("my_strategies")
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, "my_strategies", module)
    ((group, entries),) = tomllib.loads(project)["project"]["entry-points"].items()
    assert group == strategy.ENTRY_POINT_GROUP
    ((name, target),) = entries.items()
    assert target == "my_strategies:Winner"
    found = Plugins({name: module.Winner}, {})
    monkeypatch.setattr(strategy, "load_plugins", lambda *_: found)
    plan = session_of("rsl_rl", [TASK, *RATES, f"population.strategy={name}"])
    chosen = strategy.make_strategy(plan.guest_cfgs["population"])
    ranked = strategy.ranking([3.0, 1.0, 2.0, 4.0])
    assert list(chosen.pairs(ranked, None)) == [(1, 3), (2, 3)]  # type: ignore[arg-type]
