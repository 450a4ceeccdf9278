"""The settings of ``search``: ranges of values, number of trials, and rules to end them early.

It is no strategy of :mod:`envlab_populations.population`: trials begin one after another, with
fresh weights and values that Optuna chooses by the results so far, end at different budgets, and
never copy each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from optuna import distributions

from envlab.errors import ConfigurationError
from envlab_populations.hogwild.spec import Spec, make_spec, set_value
from envlab_populations.hogwild.translation import Plan, make_plan


@dataclass(frozen=True, kw_only=True)
class Search:
    """A spec's ranges, and the settings of their search."""

    spec: Spec
    ranges: Mapping[str, distributions.BaseDistribution]
    """By path of the spec; a choice's values are JSON, since Optuna stores no lists."""
    num_trials: int
    num_cores: int
    """Cores of a trial."""
    seed: int
    grace_period: int
    """Frames of all sessions before a trial may be ended early; 0: none is."""
    reduction_factor: int
    """One in this many trials continues at each rung: after ``grace_period`` frames, and after that
    times each power of this number."""
    report: tuple[str, ...]
    """A line for each key without effect here."""

    def plan(self, values: Mapping[str, Any]) -> Plan:
        """Return the plan of a trial with some values.

        Raises:
            EnvlabError: If the spec cannot be run with these values.
        """
        given = deepcopy(self.spec.values()[self.spec.name])
        given.pop("search", None)
        where = f"The spec {self.spec.name!r}"
        for path, value in self.decoded(values).items():
            set_value(given, path, value, where)
        return make_plan(make_spec(self.spec.name, given, origin="a search"))

    def decoded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return Optuna's values in the form of a spec."""
        return {
            path: json.loads(value) if _is_choice(self.ranges[path]) else value
            for path, value in values.items()
        }

    def settings(self, values: Mapping[str, Any]) -> list[str]:
        """Return values as ``KEY=VALUE``."""
        return [f"{path}={json.dumps(value)}" for path, value in self.decoded(values).items()]


def make_search(spec: Spec) -> Search:
    """Return the search of a spec, after checking that every choice and bound can be trained.

    Raises:
        EnvlabError: If a value of a range cannot be trained, or the number of trials is not stated.
    """
    if spec.search_error:
        raise ConfigurationError(spec.search_error)
    meta, plan = spec.file().part("meta"), make_plan(spec)
    num_trials = meta.count("max_trial")
    if num_trials is None:
        raise ConfigurationError(
            "meta.max_trial is absent: say how many trials to run, as by -s meta.max_trial=16."
        )
    meta.mapping("search_resources")
    given = meta.mapping("search_scheduler")
    resources, scheduler = (meta.part(f"search_{name}") for name in ("resources", "scheduler"))
    factor = scheduler.whole("reduction_factor", 3, least=2)
    grace = scheduler.count("grace_period", max(1, plan.max_frame // factor**2)) if given else 0
    search = Search(
        spec=spec,
        ranges={key.rpartition("__")[0]: _range(key, value) for key, value in spec.search.items()},
        num_trials=num_trials,
        num_cores=resources.count("cpu", meta.count("max_session", 1)),
        seed=meta.whole("random_seed", 0),
        grace_period=grace,
        reduction_factor=factor,
        report=(*plan.report, *resources.lines(), *scheduler.lines()),
    )
    for path, one in search.ranges.items():
        for value in _ends(one):
            plan = search.plan({path: value})
            unread = [line for line in plan.report if f": {path} has no effect" in line]
            if unread:
                raise ConfigurationError(
                    f"The spec searches {path!r}: correct the path, or leave it out. {unread[0]}"
                )
    return search


def _range(key: str, value: Sequence[Any]) -> distributions.BaseDistribution:
    """Return Optuna's distribution for a range of a spec."""
    kind = key.rpartition("__")[2]
    if kind == "choice":
        return distributions.CategoricalDistribution([json.dumps(one) for one in value])
    low, high, step = (*value, None)[:3]
    if "int" in kind:
        last = int(high) if kind == "qrandint" else int(high) - 1
        return distributions.IntDistribution(
            int(low), last, step=int(step or 1), log=kind == "lograndint"
        )
    return distributions.FloatDistribution(low, high, step=step, log=kind == "loguniform")


def _is_choice(one: distributions.BaseDistribution) -> bool:
    return isinstance(one, distributions.CategoricalDistribution)


def _ends(one: Any) -> Sequence[Any]:
    return one.choices if _is_choice(one) else (one.low, one.high)
