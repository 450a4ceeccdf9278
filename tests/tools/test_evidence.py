"""``envlab evidence``: runs that are made once, their records, and conclusions from them."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError, EnvlabError
from envlab.run.compare.groups import Group
from envlab.run.compare.results import find_results
from envlab.run.compare.statistics import difference_interval, holm, improvement_interval
from envlab.run.manifest import write_json
from envlab.run.records import METRICS, line_of
from envlab.tools.evidence.command import main, page
from envlab.tools.evidence.experiment import PLAYED, Experiment, names, read
from envlab.tools.evidence.runner import check_seeds, own_cores, remaining, write_record
from envlab.tools.evidence.verdict import Side, comparisons, sides_of

FILE = """
claim: PPO learns alike with more environments.
task: Isaac-Cartpole-v0
frames: 2048
minutes: 1
seeds: 1
episodes: 4
contenders:
  - {name: few, words: rsl_rl --num_envs=32}
  - {name: many, words: rsl_rl --num_envs=64 agent.save_interval=1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cartpole.yaml").write_text(FILE)
    return tmp_path


def flags(folder: Path) -> list[str]:
    places = [f"--records={folder / 'records'}", f"--logs={folder / 'logs'}"]
    return [f"--folder={folder}", *places]


def curve_of(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (record / METRICS).open()]


@pytest.mark.long
@pytest.mark.slow
def test_an_experiment_is_run_once_and_carried_on_after_a_kill(folder: Path, capsys):
    text = FILE.replace("save_interval=1", "save_interval=1, play: --num_episodes=8")
    (folder / "cartpole.yaml").write_text(text)
    write_records(folder, {"few": [1.0]})
    assert main(["run", "cartpole", *flags(folder)]) == 0
    record = folder / "records/cartpole/many/0"
    assert "runs to make: 1, about 0.0 h" in capsys.readouterr().out
    assert remaining(read("cartpole", folder), folder / "records") == []
    curve = curve_of(record)
    assert [point["frames"] for point in curve] == [1024, 2048]
    assert json.loads((record / PLAYED).read_text())["num_episodes"] == 8
    assert "host" not in json.loads((record / "run.json").read_text())
    # As if it had been killed after its first checkpoint.
    (run,) = (folder / "logs/cartpole/many/0").glob("logs/*/*/*")
    manifest = json.loads((run / "run.json").read_text())
    write_json(run / "run.json", manifest | {"status": "running"})
    for name in ("model_2.pt", "latest.pt"):
        (run / "checkpoints" / name).unlink(missing_ok=True)
    os.unlink(record / "run.json")
    assert main(["run", "cartpole", *flags(folder)]) == 0
    assert "runs to make: 1," in capsys.readouterr().out
    assert len(list((folder / "logs/cartpole/many/0").glob("logs/*/*/*"))) == 2
    again = [point["mean_return"] for point in curve_of(record)]
    assert again == [point["mean_return"] for point in curve]  # exactly


PROGRAM = """
import json, pathlib, sys
flags = dict(word.removeprefix("--").split("=") for word in sys.argv[1:])
assert pathlib.Path(flags["beside"]).samefile(__file__)
run = pathlib.Path("logs/peer/task/run")
run.mkdir(parents=True)
frames = int(flags["max_frames"])
line = {"iteration": 1, "frames": frames, "wall_s": 1.0, "mean_return": float(flags["bonus"])}
(run / "metrics.jsonl").write_text(json.dumps(line) + "\\n")
manifest = {"version": 1, "task": flags["task"], "library": "peer", "seed": int(flags["seed"])}
manifest |= {"created_at": "2026-11-26T12:00:00+00:00", "status": "finished"}
(run / "run.json").write_text(json.dumps(manifest))
played = {"num_episodes": int(flags["num_episodes"]), "return": 7.0}
pathlib.Path("played.json").write_text(json.dumps(played))
"""


PEER = "'peer.py --bonus=3 --beside={here}/peer.py'"
FEW, MANY = "rsl_rl --num_envs=32", "rsl_rl --num_envs=64 agent.save_interval=1"


def write_file(folder: Path, *changes: tuple[str, str], more: str = "") -> None:
    """Write the experiment's file, with other words and more lines."""
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "cartpole.yaml").write_text(text + more)


def test_a_peers_program_is_a_contender(folder: Path):
    (folder / "peer.py").write_text(PROGRAM)
    write_file(folder, (MANY, PEER))
    write_records(folder, {"few": [1.0]})
    assert main(["run", "cartpole", *flags(folder)]) == 0
    record = folder / "records/cartpole/many/0"
    assert json.loads((record / PLAYED).read_text()) == {"num_episodes": 4, "return": 7.0}
    (line,) = curve_of(record)
    assert (line["frames"], line["mean_return"]) == (2048, 3.0)
    (folder / "peer.py").unlink()
    with pytest.raises(ConfigurationError, match=r"program 'peer.py' of 'many', but there is no"):
        read("cartpole", folder)


def test_a_program_that_ignores_its_seed_is_found_out(folder: Path):
    (folder / "peer.py").write_text(PROGRAM)
    write_file(folder, (FEW, PEER), ("seeds: 1", "seeds: 2"))
    write_records(folder, {"many": [1.0, 2.0]})
    with pytest.raises(EnvlabError, match=r"few/0' and .*few/1' are the same, so the program"):
        main(["run", "cartpole", *flags(folder)])
    assert len(remaining(read("cartpole", folder), folder / "records")) == 1


def test_a_measure_of_the_played_episodes_is_compared(folder: Path):
    measures = '"place": "houses of test", "measures": {"all": {"success": [0.5, 0, 1]}}'
    (folder / "peer.py").write_text(PROGRAM.replace('"return": 7.0', f'"return": 7.0, {measures}'))
    peers = [(FEW, PEER), (MANY, PEER)]
    write_file(folder, *peers, more="measure: measures.all.sucess\n")
    with pytest.raises(ConfigurationError, match="in place of 'sucess' there is only: success"):
        main(["run", "cartpole", *flags(folder)])
    played = {"return": 1.0, "measures": {"all": {"success": [0.5, 0.0, 1.0]}}}
    wrong = {"measures.all": r"is {'success'.* must be a number", "return.a": "only: 1.0"}
    for measure, message in wrong.items():
        with pytest.raises(ConfigurationError, match=message):
            replace(read("cartpole", folder), measure=measure).measured(played)
    write_file(folder, *peers, more="measure: measures.all.success\n")
    experiment = read("cartpole", folder)
    assert len(remaining(experiment, folder / "records")) == 2
    shutil.rmtree(folder / "logs")
    assert main(["run", "cartpole", *flags(folder)]) == 0
    assert [side.final.tolist() for side in sides_of(experiment, folder / "records")] == [[0.5]] * 2
    text = page([experiment], folder / "records")
    assert "| mean success over 4 played episodes in houses of test |" in text


def test_a_record_keeps_the_measure_that_is_compared(folder: Path):
    more = '"return": 7.0, "success_rate": 0.75'
    (folder / "peer.py").write_text(PROGRAM.replace('"return": 7.0', more))
    write_file(folder, (FEW, PEER), (MANY, PEER), more="measure: success_rate\n")
    assert main(["run", "cartpole", *flags(folder)]) == 0
    experiment = read("cartpole", folder)
    assert [one.final.tolist() for one in sides_of(experiment, folder / "records")] == [[0.75]] * 2


def test_sigterm_ends_the_training_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "peer.py").write_text("import os, signal; os.kill(os.getppid(), 15); signal.pause()")
    write_file(folder, (FEW, "peer.py"))
    started: list[subprocess.Popen] = []
    start = subprocess.Popen

    def note(*arguments, **options) -> subprocess.Popen:
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    with pytest.raises(SystemExit) as ended:
        main(["run", "cartpole", *flags(folder)])
    assert ended.value.code == 128 + signal.SIGTERM
    assert [process.returncode for process in started] == [-signal.SIGTERM]


def write_records(folder: Path, finals: dict[str, list[float]]) -> None:
    for name, values in finals.items():
        for seed, value in enumerate(values):
            record = folder / "records/cartpole" / name / str(seed)
            record.mkdir(parents=True)
            line = {"iteration": 1, "frames": 2048, "wall_s": 60.0, "mean_return": value}
            (record / METRICS).write_bytes(line_of(line))
            manifest = {
                **{"version": 1, "task": "Isaac-Cartpole-v0", "library": "rsl_rl", "seed": seed},
                **{"seeds": 5, "created_at": "2026-11-23T12:00:00+00:00", "status": "finished"},
                **{"git": {"commit": "0123456789"}, "processor": "a processor"},
            }
            write_json(record / "run.json", manifest)


def recorded(folder: Path, finals: dict[str, list[float]], more: str = "") -> Experiment:
    """Return an experiment without episodes, after writing its file and records."""
    write_file(folder, ("episodes: 4", "episodes: 0"), more=more)
    write_records(folder, finals)
    return read("cartpole", folder)


LOW, HIGH = [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]


@pytest.mark.parametrize(
    ("few", "many", "expect", "words", "sentence"),
    [
        # 2 of the 252 divisions of ten runs are as extreme.
        (HIGH, LOW, "better", "better than", "1.00 (1.00 to 1.00); p = 0.0079, **better**"),
        (LOW, HIGH, "better", "worse than", "p = 0.0079, **worse**"),
        (HIGH, LOW, "equal", "higher than", "p = 0.0079, **higher**"),
        (LOW, HIGH, "equal", "lower than", "p = 0.0079, **lower**"),
        (LOW, LOW, "better", "undecided against", "p = 1, **undecided**"),
        (LOW, LOW, "equal", "no significant difference from", "p = 1, **no significant diff"),
        (HIGH[:4], LOW[:4], "better", "no verdict against", "4 seeds, **no verdict**"),
        (HIGH[:1], LOW, "equal", "no verdict against", "1 seeds, **no verdict**"),
    ],
)
def test_records_decide_the_verdict(folder: Path, few, many, expect, words, sentence):
    write_file(folder, ("episodes: 4", f"expect: {expect}"))
    write_records(folder, {"few": few, "many": many})
    experiment = read("cartpole", folder)
    sides = sides_of(experiment, folder / "records")
    assert sides[0].final.tolist() == few
    (found,) = comparisons(experiment, sides)
    assert found.word == words
    assert sentence in found.sentence
    summary = f"| [cartpole](#cartpole) | few: {words} many |"
    assert summary in page([experiment], folder / "records")


def test_comparisons_of_an_experiment_account_for_each_other(folder: Path):
    """Holm's p values, from 0.0079, 0.0079 and 0.69 (an exact test by hand: 174 of 252)."""
    more = "  - {name: most, words: rsl_rl --num_envs=96}\n  - {name: none, words: rsl_rl}\n"
    almost = [6.5, 7.5, 8.5, 8.7, 9.5]
    finals = {"few": HIGH, "many": LOW, "most": [0.0, *LOW[:4]], "none": almost}
    experiment = recorded(folder, finals, more)
    found = comparisons(experiment, sides_of(experiment, folder / "records"))
    assert [(one.first, one.other) for one in found] == [
        ("few", other) for other in ("many", "most", "none")
    ]
    assert "p = 0.024, **better**" in found[0].sentence
    assert "p = 0.024, **better**" in found[1].sentence
    assert found[2].word == "undecided against"
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def normal(draw: np.random.Generator) -> np.ndarray:
    return draw.normal(size=5)


def succeeds_or_not(draw: np.random.Generator) -> np.ndarray:
    return np.where(draw.random(5) < 0.6, 500.0, draw.normal(150.0, 40.0, size=5))


def test_where_nothing_differs_an_experiment_has_a_verdict_in_five_of_a_hundred(folder: Path):
    """A bootstrap interval of three seeds, as was used before, gives one in 21 of a hundred."""
    write_file(folder, more="  - {name: most, words: rsl_rl --num_envs=96}\nexpect: equal\n")
    experiment, none = read("cartpole", folder), Group(label="", keys={}, runs=[])
    for values in [normal, succeeds_or_not]:
        draw, count, wrong = np.random.default_rng(1), 150, 0
        for _ in range(count):
            sides = [
                Side(contender=contender, group=none, final=values(draw), places=set())
                for contender in experiment.contenders
            ]
            found = {one.word for one in comparisons(experiment, sides)}
            wrong += found != {"no significant difference from"}
        assert wrong / count < 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / count)


def test_seeds_are_not_added_after_a_look_unless_the_page_says_so(folder: Path):
    def with_seeds(seeds: str) -> None:
        write_file(folder, ("seeds: 1", f"seeds: {seeds}"), ("episodes: 4", "episodes: 0"))

    with_seeds("5")
    write_records(folder, {"few": HIGH, "many": LOW})
    with pytest.raises(ConfigurationError, match=r"--seeds is 6, but 'cartpole' has 5. Raise"):
        main(["run", "cartpole", "--seeds=6", *flags(folder)])
    with_seeds("10")
    unsaid = r"has 10 seeds, but .* was made for 5: .*'first_s"
    with pytest.raises(ConfigurationError, match=unsaid):
        main(["run", "cartpole", *flags(folder)])
    with_seeds("10\nfirst_seeds: 5")
    experiment = read("cartpole", folder)
    check_seeds(experiment, folder / "records")
    written = page([experiment], folder / "records")
    assert "The first 5 seeds were examined before the others were added" in written
    assert "a verdict needs p of 0.025 or less" in written
    half = [1.0, 2.0, 3.0, 4.0, 7.5]  # against HIGH: 23 of 25 pairs, p = 0.032
    shutil.rmtree(folder / "records")
    write_records(folder, {"few": HIGH, "many": half})
    sides = sides_of(experiment, folder / "records")
    assert comparisons(experiment, sides)[0].word == "undecided against"
    assert comparisons(replace(experiment, first_seeds=0), sides)[0].word == "better than"


def test_contenders_on_different_physics_are_not_compared(folder: Path):
    experiment = recorded(folder, {"few": HIGH, "many": LOW})
    assert ", physics by mujoco; " in page([experiment], folder / "records")
    path = folder / "records/cartpole/many/3/run.json"
    written = json.loads(path.read_text())
    write_json(path, written | {"world": {"device": "cuda:0"}})
    with pytest.raises(ConfigurationError, match=r"physics: mujoco \(many\), mujoco_warp \(many"):
        page([experiment], folder / "records")
    write_json(path, written | {"overrides": ["env.sim.backend=analytic"]})
    with pytest.raises(ConfigurationError, match=r"analytic \(many\)"):
        page([experiment], folder / "records")


def write_curve(folder: Path, values: Sequence[float | None], every: int = 1) -> None:
    """Write the curve of ``few``, of 8 frames an iteration, collected at one of ``every``."""
    lines = [
        line_of({"iteration": i, "frames": i // every * 8, "wall_s": 1.0, "mean_return": value})
        for i, value in enumerate(values, 1)
    ]
    (folder / "records/cartpole/few/0" / METRICS).write_bytes(b"".join(lines))


def test_without_episodes_the_last_tenth_of_the_curve_is_compared(folder: Path):
    experiment = recorded(folder, {"few": [1.0]})
    write_curve(folder, [float(i) for i in range(40)])
    (side,) = sides_of(experiment, folder / "records")
    assert side.final.tolist() == [np.mean([36, 37, 38, 39])]


def test_a_recorded_curve_has_the_mean_of_each_part(folder: Path):
    experiment = recorded(folder, {"few": [1.0]})
    values: list[float | None] = [float(i % 10) for i in range(400)]
    values[395] = None  # an iteration without an episode that ended
    write_curve(folder, values)
    (run,) = find_results([str(folder / "records/cartpole/few")], experiment.metric)
    write_record(experiment, run, folder, folder / "short")
    curve = curve_of(folder / "short")
    assert len(curve) == 40
    assert (curve[0]["frames"], curve[-1]["frames"]) == (80, 3200)
    assert [point["mean_return"] for point in curve[:-1]] == [4.5] * 39
    assert curve[-1]["mean_return"] == pytest.approx(40 / 9, abs=1e-4)


def test_a_value_that_stays_until_more_frames_is_one_point(folder: Path):
    experiment = recorded(folder, {"few": [1.0]})
    write_curve(folder, [None] * 4 + [1.0] * 5 + [2.0] * 5, every=5)
    (run,) = find_results([str(folder / "records/cartpole/few")], experiment.metric)
    write_record(experiment, run, folder, folder / "short")
    points = [(point["iteration"], point["mean_return"]) for point in curve_of(folder / "short")]
    assert points == [(5, 1.0), (10, 2.0)]


def test_a_record_names_the_gpu_of_its_training(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", {"cuda:0": "a GPU"}.__getitem__)
    experiment = recorded(folder, {"few": [1.0]})
    (run,) = find_results([str(folder / "records/cartpole/few")], experiment.metric)
    for device, is_gpu in (("cuda:0", True), ("cpu", False)):
        run.manifest["world"] = {"device": device}
        write_record(experiment, run, folder, folder / device / "0")
        found = json.loads((folder / device / "0/run.json").read_text())["processor"]
        assert (found == "a GPU") is is_gpu


def test_an_experiment_without_all_records_says_so(folder: Path):
    experiment = recorded(folder, {})
    text = page([experiment], folder / "records")
    assert "**Not run yet.**" in text
    assert "| not run yet |" in text
    write_records(folder, {"few": [1.0, 2.0]})
    text = page([replace(experiment, seeds=3)], folder / "records")
    assert "| few | 2 of 3 |" in text
    assert "| not finished |" in text


def test_the_probability_of_improvement_is_the_share_of_pairs():
    share, low, high = improvement_interval(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.5]))
    assert share == pytest.approx(8 / 9)
    assert 0.0 <= low < share < high <= 1.0
    assert improvement_interval(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == (0.5, 0.5, 0.5)
    low, high = difference_interval(np.array([3.0, 3.0]), np.array([1.0, 1.0]))
    assert (low, high) == (2.0, 2.0)


def test_an_invalid_file_is_one_sentence(folder: Path):
    for change, message in [
        (("frames: 2048", "frames: many"), "cartpole.frames must be a whole number"),
        (("claim:", "clam:"), "'cartpole.clam'"),
        (("name: many", "name: few"), "two contenders or more of different names"),
        (("episodes: 4", "measure: length"), "measure 'length' of played episodes, but plays none"),
        (("rsl_rl --num_envs=32", "peer.py, play: a=1"), "'play' for 'few', which has no effect"),
        (("seeds: 1", "seeds: 5\nfirst_seeds: 5"), "'first_seeds' of 5, but that must be fewer"),
    ]:
        write_file(folder, change)
        with pytest.raises(ConfigurationError, match=message):
            read("cartpole", folder)


def test_unknown_experiments_folders_and_cores_are_one_sentence(folder: Path, tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"'cartpol'. Did you mean cartpole\?"):
        main(["run", "cartpol", *flags(folder)])
    with pytest.raises(ConfigurationError, match="--seeds is 0, but must be 1 or more"):
        main(["run", "cartpole", "--seeds=0", *flags(folder)])
    with pytest.raises(ConfigurationError, match="There are no experiments"):
        names(tmp_path / "none")
    core = pytest.raises(ConfigurationError, match="--core asks for 1 cores from 4096 on")
    with core, own_cores(4096, 1):
        raise AssertionError
