"""Which ranges may be explored; ``mistakes/population.yaml`` has those that may not."""

from __future__ import annotations

from envlab_populations.population.ranges import Span, spans_of
from tests.trained import TASK, session_of

FIXED = "agent.algorithm.schedule=fixed"


def spans(*words: str) -> list[Span]:
    """Return the spans of settings of the algorithm."""
    ranges = [f"population.ranges.agent.algorithm.{word}" for word in words]
    session = session_of("rsl_rl", [TASK, FIXED, "--population_size=4", *ranges])
    assert session.num_members == 4
    return list(spans_of(session.guest_cfgs["population"], session.agent_cfg))


def test_ranges_are_read_by_path_and_are_logarithmic_over_a_decade():
    found = spans("clip_param=[0.1,0.3]", "num_learning_epochs=[2,8]", "learning_rate=[1e-4,1e-2]")
    assert {one.path: (one.low, one.high, one.is_log, one.is_whole) for one in found} == {
        "agent.algorithm.clip_param": (0.1, 0.3, False, False),
        "agent.algorithm.num_learning_epochs": (2, 8, False, True),
        "agent.algorithm.learning_rate": (1e-4, 1e-2, True, False),
    }


def test_a_range_may_say_its_scale_and_where_members_begin_and_more_numbers_are_choices():
    said = "learning_rate={low: 1e-4, high: 1e-2, scale: linear, start: [1e-3, 2e-3]}"
    rate, size = spans(said, "num_mini_batches=[2,4,8]")
    assert (rate.is_log, rate.start) == (False, (1e-3, 2e-3))
    assert size.choices == (2, 4, 8)


def test_a_population_is_none_by_default():
    session = session_of("rsl_rl", [TASK])
    assert (session.num_members, session.guest_cfgs) == (0, {})
