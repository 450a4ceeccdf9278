"""Searches: the values Optuna draws, trials that end early, and resuming an experiment."""

from __future__ import annotations

import csv
import json
import multiprocessing
import re
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from envlab.distributed.interrupt import Interrupted
from envlab.errors import ConfigurationError
from envlab_populations.hogwild.preparation import Options
from envlab_populations.hogwild.spec import make_spec
from envlab_populations.hogwild.translation import Plan
from tests.launcher import Launch, run
from tests.populations.hogwild.test_trial import DEADLINE_S, SPEC, lab
from tests.refusals import check_refusals

optuna = pytest.importorskip("optuna", reason="needs optuna: pip install -e '.[lab]'")

from envlab_populations.hogwild import experiment as experiment_module  # noqa: E402
from envlab_populations.hogwild.experiment import Experiment, find_experiment, open_study  # noqa: E402
from envlab_populations.hogwild.results import write_results  # noqa: E402
from envlab_populations.hogwild.search import Search, make_search  # noqa: E402

RANGES: dict[str, Any] = {
    "agent": {
        "algorithm": {"gamma__uniform": [0.9, 0.99]},
        "net": {
            "hid_layers__choice": [[8], [8, 8]],
            "optim_spec": {"lr__loguniform": [1e-4, 1e-2]},
        },
    },
    "agent.net.optim_spec.lr__loguniform": [1e-4, 1e-2],
    "agent.memory.batch_size__qrandint": [16, 64, 16],
    "agent.algorithm.training_iter__randint": [1, 3],
}
POINT, POINTS = 800, 10
"""Frames of all sessions between two points of a trial, and how many there are."""


def search_of(ranges: Any = RANGES, **meta: Any) -> Search:
    given = {**SPEC, "meta": {**SPEC["meta"], "max_trial": 4, **meta}, "search": ranges}
    return make_search(make_spec("small", given, origin="a test"))


def test_ranges_are_optunas_and_its_values_are_the_specs():
    search, kinds = search_of(), optuna.distributions
    assert search.ranges == {
        "agent.algorithm.gamma": kinds.FloatDistribution(0.9, 0.99),
        "agent.net.hid_layers": kinds.CategoricalDistribution(["[8]", "[8, 8]"]),
        "agent.net.optim_spec.lr": kinds.FloatDistribution(1e-4, 1e-2, log=True),
        "agent.memory.batch_size": kinds.IntDistribution(16, 64, step=16),
        # Ray Tune leaves the last one out.
        "agent.algorithm.training_iter": kinds.IntDistribution(1, 2),
    }
    values = {"agent.net.hid_layers": "[8, 8]", "agent.net.optim_spec.lr": 0.002}
    plan = search.plan(values)
    assert plan.agent.net.hidden_layers == [8, 8]
    assert plan.agent.settings["learning_rate"] == 0.002
    assert search.settings(values) == [f"{path}={value}" for path, value in values.items()]


def test_slmlabs_scheduler_is_asha_and_without_one_no_trial_ends_early():
    assert search_of().grace_period == 0
    search = search_of(search_scheduler={"grace_period": 1e3, "brackets": 1})
    assert (search.grace_period, search.reduction_factor) == (1000, 3)
    assert [line.partition("': ")[2] for line in search.report] == [
        "meta.search_scheduler.brackets has no effect: nothing here is like it"
    ]
    assert (search.num_cores, search_of(search_resources={"cpu": 3}).num_cores) == (2, 3)


def test_bad_ranges_are_refused():
    check_refusals(
        lambda ranges, meta: search_of(ranges, **meta),
        [
            (RANGES, {"max_trial": None}, "meta.max_trial is absent"),
            ({"agent.algorithm.gamma__uniform": [0.9]}, {}, "must be a list of two rising numbers"),
            ({"agent.algorithm.gamma__quniform": [0, 1, 0]}, {}, "and a step above 0"),
            ({"agent.memory.batch_size__qrandint": [1, 9, 0.5]}, {}, "rising whole numbers and a"),
            ({"agent.memory.batch_size__randint": [0.2, 0.8]}, {}, "two rising whole numbers"),
            ({"agent.net.optim_spec.lr__loguniform": [0, 1]}, {}, "begins above 0"),
            ({"agent.nets.lr__uniform": [0, 1]}, {}, "has no 'agent.nets'"),
            ({"agent.algorithm.gama__uniform": [0, 1]}, {}, r"Did you mean gamma\?"),
            ({"agent.net.hid_layers_activation__choice": ["rellu"]}, {}, "Did you mean relu"),
            (RANGES, {"search_scheduler": {"reduction_factor": 1}}, "be a number of at least 2"),
        ],
    )


HELD: set[str] = set()
"""Trials that stay at their fourth point until they are asked to end."""


def stand_in(plan: Plan, options: Options, cores: Sequence[int]) -> None:
    """Write a trial's files, with returns that rise by its learning rate; save when asked to."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    directory = options.destination
    assert directory is not None
    rate = plan.agent.settings["learning_rate"]
    if rate > 0.009:
        raise SystemExit(3)
    first = 0
    if options.resumes is not None:
        first = len((directory / "metrics.jsonl").read_text().splitlines())
    for session in ("0", "1"):
        (directory / "sessions" / session / "checkpoints").mkdir(parents=True, exist_ok=True)
    manifest = {"library": "hogwild", "task": "none", "log_frequency": 1, "status": "running"}
    for number in range(first, POINTS):
        record = {
            "iteration": number + 1,
            "frames": POINT * (number + 1),
            "wall_s": 0.1 * (number + 1),
            "mean_return": rate * number,
            "details": {"gradient_steps": number, "begun_at": first},
        }
        for folder in (directory, *(directory / "sessions").iterdir()):
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
        for folder in (directory / "sessions").iterdir():
            (folder / "checkpoints" / f"model_{number + 1}.pt").touch()
        (directory / "run.json").write_text(json.dumps(manifest))
        time.sleep(0.1)
        held_until = time.monotonic() + 30.0
        while directory.name in HELD and number == 3 and not asked:
            assert time.monotonic() < held_until
            time.sleep(0.01)
        if asked:
            raise SystemExit(143)
    (directory / "run.json").write_text(json.dumps({**manifest, "status": "finished"}))


class ForkedTrial:
    """An experiment's child process; forked, as importing torch in each takes seconds."""

    def __init__(self, function: str, *arguments: Any, kill_signal: signal.Signals) -> None:
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=stand_in, args=arguments)
        self.process.start()

    @property
    def exit_code(self) -> int | None:
        return self.process.exitcode

    def ask_to_end(self) -> None:
        self.process.terminate()


def end_forked(trials: Iterable[ForkedTrial], grace_s: float) -> None:
    for trial in list(trials):
        trial.ask_to_end()
        trial.process.join(grace_s)


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Experiment]:
    monkeypatch.setattr(experiment_module, "Child", ForkedTrial)
    monkeypatch.setattr(experiment_module, "end_all", end_forked)
    monkeypatch.setattr(experiment_module, "LOOK_S", 0.05)
    monkeypatch.setattr(experiment_module, "usable_cores", lambda: 4)

    def make(**meta: Any) -> Experiment:
        ranges = {"agent.net.optim_spec.lr__choice": [0.001, 0.002, 0.004, 0.01]}
        options = Options(timeout_s=DEADLINE_S)
        return Experiment(search_of(ranges, max_trial=8, **meta), options, tmp_path)

    return make


def test_poor_trials_end_early_and_one_that_dies_stops_no_other(begin: Callable[..., Experiment]):
    experiment = begin(search_scheduler={"grace_period": 3 * POINT, "reduction_factor": 2})
    experiment.run()
    rows = write_results(experiment)
    rate = "agent.net.optim_spec.lr"
    done, poor, dead = (
        [row for row in rows if row["state"] == state] for state in ("complete", "pruned", "fail")
    )
    assert len(rows) == len(done) + len(poor) + len(dead) == 8
    assert {row[rate] for row in dead} == {0.01}
    assert {row["frame"] for row in done} == {POINT * POINTS}
    assert {row["frame"] for row in poor} <= {3 * POINT, 6 * POINT}
    assert poor
    with (experiment.directory / "experiment_df.csv").open() as file:
        table = list(csv.DictReader(file))
    best = max(row[rate] for row in done)
    assert float(table[0][rate]) == best
    assert float(table[0]["total_reward_ma"]) == pytest.approx(4.5 * best)  # the mean of ten points
    for name in ("experiment_graph", "multi_trial_graph_mean_returns_ma_vs_frames"):
        assert (experiment.directory / f"{name}.png").stat().st_size > 5000


def test_an_interrupted_experiment_resumes_with_its_trials(
    begin: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    experiment = begin()
    look = Experiment.look

    def interrupted(self: Experiment, one: Any) -> None:
        look(self, one)
        if one.number == 2 and one.reported >= 3 * POINT:
            raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(Experiment, "look", interrupted)
    HELD.add("2")
    with pytest.raises(Interrupted):
        experiment.run()
    HELD.clear()
    monkeypatch.setattr(Experiment, "look", look)
    experiment.lock.release()  # as the end of its process does
    before = experiment.study.trials
    begun = [one for one in before if one.state == optuna.trial.TrialState.RUNNING]
    assert begun
    assert find_experiment("small", str(tmp_path)) == tmp_path
    late = {"iteration": 99, "frames": 10**6, "mean_return": 0.0, "details": {}}
    with (tmp_path / "trials" / "2" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(late) + "\n")  # of a trial that was killed, and never saved it
    again = begin()
    again.run()
    after = again.study.trials
    assert [one.params for one in after[: len(before)]] == [one.params for one in before]
    assert len(after) == 8
    assert all(one.state != optuna.trial.TrialState.RUNNING for one in after)
    for one in begun:
        # Each point was reported once: its records were continued.
        points = [POINT * (number + 1) for number in range(POINTS)]
        assert sorted(after[one.number].intermediate_values) == points
    last = (tmp_path / "trials" / "2" / "metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["details"]["begun_at"] >= 3


def test_values_that_cannot_be_trained_together_end_their_trial_alone(tmp_path: Path):
    ranges = {"env.num_envs__choice": [2000], "agent.memory.max_size__choice": [16]}
    search = search_of(ranges, max_trial=2)
    experiment = Experiment(search, Options(timeout_s=DEADLINE_S), tmp_path)
    experiment.run()
    assert [one.state for one in experiment.study.trials] == [optuna.trial.TrialState.FAIL] * 2


def test_an_experiment_resumes_with_its_own_ranges_only(tmp_path: Path):
    (path, choices), other = ("agent.memory.batch_size__choice", [8, 16]), [8, 32]
    search = search_of({path: choices})
    open_study(tmp_path, search).ask(dict(search.ranges))
    open_study(tmp_path, search)
    for ranges in ({path: other}, {path: choices, "agent.algorithm.gamma__uniform": [0.9, 0.99]}):
        with pytest.raises(ConfigurationError, match="was started with another range of"):
            open_study(tmp_path, search_of(ranges))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_search_as_typed(tmp_path: Path):
    command = lab(tmp_path, "search", "-s", "meta.max_trial=2", "-s", "env.max_frame=1e7")
    spec = {**SPEC, "search": {"agent.net.optim_spec.lr__loguniform": [1e-4, 1e-2]}}
    (tmp_path / "spec.json").write_text(json.dumps({"small": spec}))
    launch = Launch(command, tmp_path)
    try:
        launch.wait_until(lambda: [*tmp_path.glob("logs/*/*/*/trials/0/metrics.jsonl")], DEADLINE_S)
        launch.process.send_signal(signal.SIGTERM)
        assert launch.wait(DEADLINE_S) == 143, launch.output
        assert launch.left() == {}
    finally:
        launch.close()
    command[4] = "search@latest"
    code, output = run([*command[:-1], "env.max_frame=8e4"], tmp_path, 4.0 * DEADLINE_S)
    assert code == 0, output
    assert "Trial 0 resumes: agent.net.optim_spec.lr=" in output
    assert re.search(r"Train with the best values: .*envlab lab run spec.json small train", output)
