"""Which ranges may be explored, and which are refused in one sentence."""

from __future__ import annotations

import re

import pytest

from envlab.config import to_dict
from envlab.errors import ConfigurationError
from envlab.training.population.cfg import PopulationCfg, spans_of
from tests.trained import TASK, session_of

RATE = "population.ranges.agent.algorithm.learning_rate"
FIXED = "agent.algorithm.schedule=fixed"


def spans(*words: str, library: str = "rsl_rl") -> dict[str, tuple[float, float, bool, bool]]:
    session = session_of(library, [TASK, "--population_size=4", *words])
    found = spans_of(session.population_cfg, session.agent_cfg)
    return {one.path: (one.low, one.high, one.is_log, one.is_whole) for one in found}


def test_ranges_are_read_by_path_and_are_logarithmic_over_a_decade():
    words = ("clip_param=[0.1,0.3]", "num_learning_epochs=[2,8]", "learning_rate=[1e-4,1e-2]")
    assert spans(FIXED, *(f"population.ranges.agent.algorithm.{word}" for word in words)) == {
        "agent.algorithm.clip_param": (0.1, 0.3, False, False),
        "agent.algorithm.num_learning_epochs": (2, 8, False, True),
        "agent.algorithm.learning_rate": (1e-4, 1e-2, True, False),
    }


def test_a_range_may_say_its_scale_and_where_members_begin():
    word = f"{RATE}={{low: 1e-4, high: 1e-2, scale: linear, start: [1e-3, 2e-3]}}"
    session = session_of("rsl_rl", [TASK, FIXED, "--population_size=4", word])
    (span,) = spans_of(session.population_cfg, session.agent_cfg)
    assert (span.is_log, span.start) == (False, (1e-3, 2e-3))


def test_three_or_more_numbers_are_choices():
    session = session_of(
        "rsl_rl",
        [
            TASK,
            "--population_size=4",
            "population.ranges.agent.algorithm.num_mini_batches=[2,4,8]",
        ],
    )
    (span,) = spans_of(session.population_cfg, session.agent_cfg)
    assert span.choices == (2, 4, 8)


def test_a_population_is_none_by_default():
    assert to_dict(session_of("rsl_rl", [TASK]).population_cfg, "p") == to_dict(
        PopulationCfg(), "p"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--population_size=1"], "--population_size is 1, but a population needs two"),
        (["--population_size=-3"], "--population_size is -3, but must be 2 or more"),
        (["--population_size=4"], "population.ranges is empty"),
        ([f"{RATE}=[1e-4,1e-2]"], "no effect on a single learner. Add --population_size"),
        (
            ["--population_size=4", FIXED, f"{RATE}=[1e-2,1e-4]"],
            "goes from 0.01 to 0.0001: its ends are swapped",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}=[-1,1e-2]"],
            "agent.algorithm.learning_rate is -1.0",
        ),
        (["--population_size=4", FIXED, f"{RATE}=fast"], "is 'fast', but must be"),
        (
            ["--population_size=4", FIXED, f"{RATE}={{low: 1e-4, high: 1e-2, start: []}}"],
            "start is \\[\\], but must be two rising numbers from 0.0001 to 0.01",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}={{low: 1e-4, high: 1e-2, start: [1e-5, 1]}}"],
            "start is .*, but must be two rising numbers from 0.0001 to 0.01",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}={{choices: [1e-4, 1e-3], scale: log}}"],
            "must be .*{choices: ",
        ),
        (
            ["--population_size=4", "population.ranges.agent.algorithm.num_mini_batches=[1.5,4]"],
            "must hold whole numbers only",
        ),
        (["--population_size=4", FIXED, f"{RATE}=[a,b]"], "must hold finite numbers only"),
        (
            ["--population_size=4", f"{RATE}=[1e-4,1e-2]"],
            "agent.algorithm.schedule is 'adaptive', which rewrites .*schedule=fixed",
        ),
        (
            ["--population_size=4", "population.ranges.agent.algorithm.learnin_rate=[1,2]"],
            "leads to nothing .*Did you mean agent.algorithm.learning_rate",
        ),
        (
            ["--population_size=4", "population.ranges.agent.algorithm.schedule=[1,2]"],
            "leads to 'adaptive', which is no number",
        ),
        (
            ["--population_size=4", "population.ranges.agent.num_steps_per_env=[8,16]"],
            "is of the run, and so the same for all members",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}=[1e-4,1e-2]", "--global_num_envs=8"],
            "--global_num_envs has no effect with --population_size",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}=[1e-4,1e-2]", "population.exploit=0.9"],
            "population.exploit is 0.9",
        ),
        (
            ["--population_size=4", FIXED, f"{RATE}=[1e-4,1e-2]", "population.intervall=2"],
            "Did you mean population.interval",
        ),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], message: str):
    with pytest.raises(ConfigurationError) as raised:
        session_of("rsl_rl", [TASK, *words])
    assert re.search(message, str(raised.value)), raised.value


@pytest.mark.parametrize(
    ("library", "words", "message"),
    [
        (
            "skrl",
            ["population.ranges.agent.agent.learning_rate=[1e-4,1e-2]"],
            "learning_rate_scheduler is .*learning_rate_scheduler=null",
        ),
        (
            "skrl",
            ["--ml_framework=jax", "population.ranges.agent.agent.discount_factor=[0.9,0.99]"],
            "no effect with --ml_framework jax",
        ),
        (
            "rl_games",
            ["population.ranges.agent.params.config.learning_rate=[1e-4,1e-2]"],
            "lr_schedule is 'adaptive'.*lr_schedule=identity",
        ),
    ],
)
def test_each_library_names_settings_that_undo_ranges(library: str, words: list[str], message: str):
    with pytest.raises(ConfigurationError) as raised:
        session_of(library, [TASK, "--population_size=2", *words])
    assert re.search(message, str(raised.value)), raised.value
