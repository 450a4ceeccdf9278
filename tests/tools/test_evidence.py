"""``envlab evidence``: runs that are made once, their records, and conclusions from them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError, EnvlabError
from envlab.run.compare.results import find_results
from envlab.run.compare.statistics import difference_interval, improvement_interval
from envlab.run.manifest import write_json
from envlab.run.records import METRICS, line_of
from envlab.tools.evidence.command import main
from envlab.tools.evidence.experiment import PLAYED, Experiment, names, read
from envlab.tools.evidence.page import page, sides_of, verdict
from envlab.tools.evidence.runner import own_cores, remaining, write_record

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


@pytest.mark.slow
def test_an_experiment_is_run_once_and_carried_on_after_a_kill(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    text = FILE.replace("save_interval=1", "save_interval=1, play: --num_episodes=8")
    (folder / "cartpole.yaml").write_text(text)
    write_records(folder, {"few": [1.0]})
    assert main(["run", "cartpole", *flags(folder)]) == 0
    assert "runs to make: 1, about 0.0 h" in capsys.readouterr().out
    experiment = read("cartpole", folder)
    assert remaining(experiment, folder / "records") == []
    record = folder / "records/cartpole/many/0"
    curve = [json.loads(line) for line in (record / METRICS).open()]
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
    runs = list((folder / "logs/cartpole/many/0").glob("logs/*/*/*"))
    assert len(runs) == 2
    again = [json.loads(line) for line in (record / METRICS).open()]
    assert [point["mean_return"] for point in again] == [
        point["mean_return"] for point in curve
    ]  # exactly


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


def test_a_peers_program_is_a_contender(folder: Path):
    (folder / "peer.py").write_text(PROGRAM)
    text = FILE.replace(
        "rsl_rl --num_envs=64 agent.save_interval=1", "'peer.py --bonus=3 --beside={here}/peer.py'"
    )
    (folder / "cartpole.yaml").write_text(text)
    write_records(folder, {"few": [1.0]})
    assert main(["run", "cartpole", *flags(folder)]) == 0
    record = folder / "records/cartpole/many/0"
    assert json.loads((record / PLAYED).read_text()) == {"num_episodes": 4, "return": 7.0}
    (line,) = (json.loads(line) for line in (record / METRICS).open())
    assert (line["frames"], line["mean_return"]) == (2048, 3.0)
    (folder / "peer.py").unlink()
    with pytest.raises(ConfigurationError, match=r"program 'peer.py' of 'many', but there is no"):
        read("cartpole", folder)


def test_a_program_that_ignores_its_seed_is_found_out(folder: Path):
    (folder / "peer.py").write_text(PROGRAM)
    peer = "'peer.py --bonus=3 --beside={here}/peer.py'"
    text = FILE.replace("rsl_rl --num_envs=32", peer).replace("seeds: 1", "seeds: 2")
    (folder / "cartpole.yaml").write_text(text)
    write_records(folder, {"many": [1.0, 2.0]})
    with pytest.raises(EnvlabError, match=r"few/0' and .*few/1' are the same, so the program"):
        main(["run", "cartpole", *flags(folder)])
    assert len(remaining(read("cartpole", folder), folder / "records")) == 1


def test_a_measure_of_the_played_episodes_is_compared(folder: Path):
    measures = (
        '"return": 7.0, "place": "houses of test", "measures": {"all": {"success": [0.5, 0, 1]}}'
    )
    (folder / "peer.py").write_text(PROGRAM.replace('"return": 7.0', measures))
    peer = "'peer.py --bonus=3 --beside={here}/peer.py'"
    text = FILE.replace("rsl_rl --num_envs=32", peer)
    text = text.replace("rsl_rl --num_envs=64 agent.save_interval=1", peer)
    (folder / "cartpole.yaml").write_text(text + "measure: measures.all.sucess\n")
    with pytest.raises(ConfigurationError, match="where 'sucess' should be there is only: success"):
        main(["run", "cartpole", *flags(folder)])
    played = {"return": 1.0, "measures": {"all": {"success": [0.5, 0.0, 1.0]}}}
    wrong = {"measures.all": r"is {'success'.* must be a number", "return.a": "only: 1.0"}
    for measure, message in wrong.items():
        with pytest.raises(ConfigurationError, match=message):
            replace(read("cartpole", folder), measure=measure).measured(played)
    (folder / "cartpole.yaml").write_text(text + "measure: measures.all.success\n")
    experiment = read("cartpole", folder)
    assert len(remaining(experiment, folder / "records")) == 2
    shutil.rmtree(folder / "logs")
    assert main(["run", "cartpole", *flags(folder)]) == 0
    assert [side.final.tolist() for side in sides_of(experiment, folder / "records")] == [[0.5]] * 2
    text = page([experiment], folder / "records")
    assert "| mean success over 4 played episodes in houses of test |" in text


def test_sigterm_ends_the_training_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "peer.py").write_text("import os, signal; os.kill(os.getppid(), 15); signal.pause()")
    text = FILE.replace("rsl_rl --num_envs=32", "peer.py")
    (folder / "cartpole.yaml").write_text(text)
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
                "version": 1,
                "task": "Isaac-Cartpole-v0",
                "library": "rsl_rl",
                "seed": seed,
                "created_at": "2026-11-23T12:00:00+00:00",
                "git": {"commit": "0123456789"},
                "processor": "a processor",
                "status": "finished",
            }
            write_json(record / "run.json", manifest)


@pytest.mark.parametrize(
    ("few", "many", "expect", "words", "sentence"),
    [
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], "better", "better than", "1.00 to 1.00), **better**"),
        ([1.0, 2.0, 3.0], [5.0, 6.0, 7.0], "better", "worse than", "**worse**"),
        (
            [1.0, 5.0, 9.0],
            [2.0, 5.0, 8.0],
            "better",
            "undecided against",
            "probability 0.50 (0.00 to 1.00), **undecided",
        ),
        ([1.0, 5.0, 9.0], [2.0, 5.0, 8.0], "equal", "not told apart from", "contains 0"),
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], "equal", "higher than", "does **not** contain 0"),
        ([1.0, 2.0, 3.0], [5.0, 6.0, 7.0], "equal", "lower than", "does **not** contain 0"),
        ([5.0], [1.0, 2.0], "better", "one seed of", "one seed, which decides nothing"),
    ],
)
def test_records_decide_the_verdict(folder: Path, few, many, expect, words, sentence):
    text = FILE.replace("episodes: 4", f"expect: {expect}")
    (folder / "cartpole.yaml").write_text(text)
    write_records(folder, {"few": few, "many": many})
    experiment = read("cartpole", folder)
    first, second = sides_of(experiment, folder / "records")
    assert first.final.tolist() == few
    found = verdict(experiment, first, second)
    assert found[0] == words
    assert sentence in found[1]
    summary = f"| [cartpole](#cartpole) | {experiment.claim} | few: {words} many |"
    assert summary in page([experiment], folder / "records")


def test_without_episodes_the_last_tenth_of_the_curve_is_compared(folder: Path):
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0"))
    write_records(folder, {"few": [1.0]})
    lines = [
        {"iteration": 1 + i, "frames": 1 + i, "wall_s": 1.0, "mean_return": float(i)}
        for i in range(40)
    ]
    file = folder / "records/cartpole/few/0" / METRICS
    file.write_bytes(b"".join(map(line_of, lines)))
    (side,) = sides_of(read("cartpole", folder), folder / "records")
    assert side.final.tolist() == [np.mean([36, 37, 38, 39])]


def test_a_recorded_curve_has_the_mean_of_each_part(folder: Path):
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0"))
    write_records(folder, {"few": [1.0]})
    file = folder / "records/cartpole/few/0" / METRICS
    values = [float(i % 10) for i in range(400)]
    lines = [
        {"iteration": 1 + i, "frames": 8 * (1 + i), "wall_s": 1.0, "mean_return": value}
        for i, value in enumerate(values)
    ]
    lines[395]["mean_return"] = None  # an iteration without an episode that ended
    file.write_bytes(b"".join(map(line_of, lines)))
    experiment = read("cartpole", folder)
    (run,) = find_results([str(folder / "records/cartpole/few")], experiment.metric)
    write_record(experiment, run, folder, folder / "short")
    curve = [json.loads(line) for line in (folder / "short" / METRICS).open()]
    assert len(curve) == 40
    assert (curve[0]["frames"], curve[-1]["frames"]) == (80, 3200)
    assert [point["mean_return"] for point in curve[:-1]] == [4.5] * 39
    assert curve[-1]["mean_return"] == pytest.approx(40 / 9, abs=1e-4)


def test_a_record_names_the_gpu_of_its_training(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", {"cuda:0": "a GPU"}.__getitem__)
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0"))
    write_records(folder, {"few": [1.0]})
    experiment = read("cartpole", folder)
    (run,) = find_results([str(folder / "records/cartpole/few")], experiment.metric)
    for device, is_gpu in (("cuda:0", True), ("cpu", False)):
        run.manifest["world"] = {"device": device}
        write_record(experiment, run, folder, folder / device / "0")
        found = json.loads((folder / device / "0/run.json").read_text())["processor"]
        assert (found == "a GPU") is is_gpu


def test_a_page_has_each_seeds_value_and_where_it_comes_from(folder: Path):
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0"))
    write_records(folder, {"few": [1.5, 2.5], "many": [3.5, 4.5]})
    peers = folder / "records/cartpole/many/0/run.json"
    write_json(peers, json.loads(peers.read_text()) | {"git": None})
    text = page([read("cartpole", folder)], folder / "records")
    assert (
        "| few | 2 | 2 (1.5 to 2.5): 1.5, 2.5 | 1.0 | `envlab train rsl_rl --num_envs=32` |" in text
    )
    assert "commit 0123456, 2026-11-23, a processor" in text
    assert "envlab evidence run cartpole" in text
    write_json(peers, json.loads(peers.read_text()) | {"processor": "a GPU"})
    text = page([read("cartpole", folder)], folder / "records")
    assert "2.5 | 1.0 (a processor) | `envlab" in text
    assert "4.5 | 1.0 (a GPU, a processor) | `envlab" in text


def test_an_experiment_without_all_records_says_so(folder: Path):
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0"))
    experiment = read("cartpole", folder)
    text = page([experiment], folder / "records")
    assert "**Not run yet.**" in text
    assert "| not run yet |" in text
    write_records(folder, {"few": [1.0, 2.0]})
    text = page([replace(experiment, seeds=3)], folder / "records")
    assert "| few | 2 of 3 |" in text
    assert "| not finished |" in text


def test_every_two_contenders_are_compared(folder: Path):
    more = "  - {name: most, words: 'peer.py --of={here}'}\n"
    (folder / "peer.py").touch()
    (folder / "cartpole.yaml").write_text(FILE.replace("episodes: 4", "episodes: 0") + more)
    write_records(folder, {name: [1.0, 2.0] for name in ("few", "many", "most")})
    text = page([read("cartpole", folder)], folder / "records")
    for pair in ("few against many", "few against most", "many against most"):
        assert f"- {pair}: " in text
    assert "| `python scripts/evidence/peer.py --of=scripts/evidence` |" in text


def test_the_probability_of_improvement_is_the_share_of_pairs():
    share, low, high = improvement_interval(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.5]))
    assert share == pytest.approx(8 / 9)
    assert 0.0 <= low < share < high <= 1.0
    assert improvement_interval(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == (0.5, 0.5, 0.5)
    low, high = difference_interval(np.array([3.0, 3.0]), np.array([1.0, 1.0]))
    assert (low, high) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("frames: 2048", "frames: many"), "cartpole.frames must be a whole number"),
        (("claim:", "clam:"), "'cartpole.clam'"),
        (("name: many", "name: few"), "two contenders or more of different names"),
        (("episodes: 4", "measure: length"), "measure 'length' of played episodes, but plays none"),
        (("rsl_rl --num_envs=32", "peer.py, play: a=1"), "'play' for 'few', which has no effect"),
    ],
)
def test_an_invalid_file_is_one_sentence(folder: Path, change, message: str):
    (folder / "cartpole.yaml").write_text(FILE.replace(*change))
    with pytest.raises(ConfigurationError, match=message):
        read("cartpole", folder)


def test_unknown_experiments_folders_and_cores_are_one_sentence(folder: Path, tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"'cartpol'. Did you mean cartpole\?"):
        main(["run", "cartpol", *flags(folder)])
    with pytest.raises(ConfigurationError, match="--seeds is 0, but must be 1 or more"):
        main(["run", "cartpole", "--seeds=0", *flags(folder)])
    with pytest.raises(ConfigurationError, match="There are no experiments"):
        names(tmp_path / "none")
    with (
        pytest.raises(ConfigurationError, match="--core asks for 1 cores from 4096 on"),
        own_cores(4096, 1),
    ):
        raise AssertionError
    assert isinstance(read("cartpole", folder), Experiment)
