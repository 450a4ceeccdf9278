"""``--dry_run`` writes and simulates nothing, and predicts what the run then does."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from envlab.envs import VectorEnv
from envlab.training.dry_run_text import changes, dry_run_text
from envlab.training.footprint import Scale, saved_bytes
from envlab.training.launch import train
from tests.agents import end
from tests.launcher import TRAIN, Launch, torchrun
from tests.trained import SMALL, TASK, metrics_of

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Printed:
    """The output of a dry run."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, name: str) -> str:
        """Return the value printed after a name."""
        found = re.findall(rf"^  {re.escape(name)} {{2,}}(.*)$", self.text, re.MULTILINE)
        assert len(found) == 1, (name, found, self.text)
        return found[0]

    def number(self, name: str) -> int:
        return int(self[name].split()[0].rstrip(",").replace(",", ""))

    def size(self, name: str) -> float:
        count, unit = self[name].replace(",", "").split()[:2]
        return float(count) * UNITS[unit]

    def yaml(self, name: str) -> str:
        """Return the file that would be written under a name."""
        start = self.text.index(f"# params/{name}.yaml\n") + len(f"# params/{name}.yaml\n")
        return self.text[start : self.text.index("\n\n", start)] + "\n"


@pytest.fixture
def dry_run(capsys, monkeypatch):
    """Return a function that runs one in a folder, and fails if any environment is stepped."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an environment was stepped")

    monkeypatch.setattr(VectorEnv, "step", refuse)

    def run(folder: Path, *arguments: str, library: str = "rsl_rl", code: int = 0) -> Printed | str:
        with contextlib.chdir(folder):
            assert train(library, [*arguments, "--dry_run"]) == code
        out, error = capsys.readouterr()
        return Printed(out) if code == 0 else error

    return run


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_it_writes_nothing_and_predicts_the_run(dry_run, trained, tmp_path):
    printed = dry_run(tmp_path, *SMALL, "--max_iterations=4")
    assert listing(tmp_path) == []
    records = metrics_of(trained)
    assert printed.number("iterations") == len(records) == 4
    assert printed.number("frames") == records[-1]["frames"]
    assert printed["iteration"].endswith(f" {records[0]['frames']:,} frames")
    for name in ("env", "agent"):
        assert printed.yaml(name) == (trained / "params" / f"{name}.yaml").read_text()
    assert re.fullmatch(r"logs/rsl_rl/cartpole/<date>_<time> \(.*\)", printed["run directory"])
    real = (trained / "checkpoints" / "model_4.pt").stat().st_size
    assert printed.size("a checkpoint") == pytest.approx(real, rel=0.1)


def test_networks_and_rollouts_are_counted(dry_run, tmp_path):
    printed = dry_run(tmp_path, TASK, "--device=cpu", "--num_envs=256")
    # Actor 4-32-32-1 with a deviation, critic 4-32-32-1.
    layers = 4 * 32 + 32 + 32 * 32 + 32 + 32 + 1
    assert f"networks of {2 * layers + 1:,} parameters" in printed["built so far"]
    assert printed.size("gradients") == pytest.approx(4 * (2 * layers + 1), rel=0.02)
    assert printed.size("optimizer") == pytest.approx(8 * (2 * layers + 1), rel=0.02)
    # 4 observations and 6 numbers of 4 bytes, and a flag, in each of 16 steps.
    assert printed.size("rollouts") == pytest.approx(16 * 256 * 41, rel=0.05)
    assert printed.size("in all") > 100 << 20  # Python, torch and MuJoCo


def test_changes_by_flags_and_overrides_are_reported(dry_run, tmp_path):
    printed = dry_run(tmp_path, TASK, "--num_envs=32", "env.decimation=4", "--seed=7")
    assert printed["env.decimation"] == "2 -> 4"
    assert printed["env.scene.num_envs"] == "4096 -> 32"
    assert printed["agent.seed"] == "42 -> 7"
    assert printed["seed"].startswith("7 for networks, 7 for environments")
    assert "agent.max_iterations  " not in printed.text


def test_a_resume_is_reported_and_the_run_left_alone(dry_run, trained):
    folder = trained.parents[3]
    before = listing(folder)
    printed = dry_run(folder, *SMALL, "--max_iterations=10", "--resume", "--load_run", trained.name)
    assert "model_4.pt, iteration 4; everything continues" in printed["resume"]
    assert printed["iterations"] == "10, of which 4 are done"
    assert printed.number("frames") == 10 * metrics_of(trained)[0]["frames"]
    flags = [TASK, "--seed=7", "--max_iterations=10", "--resume"]
    other = dry_run(folder, *flags, "--load_run", trained.name)
    assert "environments and generators start fresh, because it was saved on 1" in other["resume"]
    assert listing(folder) == before


@pytest.mark.long
@pytest.mark.slow
def test_the_other_libraries_are_reported_alike(dry_run, tmp_path):
    for library, arguments, parameters in (
        ("rl_games", ["agent.params.config.minibatch_size=256"], 1_283),
        ("skrl", ["--ml_framework=jax"], 2_499),
    ):
        if "--ml_framework=jax" in arguments:
            pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
        flags = [TASK, "--device=cpu", "--num_envs=32", *arguments]
        printed = dry_run(tmp_path, *flags, library=library)
        assert f"networks of {parameters:,} parameters" in printed["built so far"]
        assert printed["library"] == library
        assert listing(tmp_path) == []


def test_a_replay_memory_counts_in_a_checkpoint(dry_run, tmp_path):
    words = ["--algorithm=sac", "agent.memory.memory_size=100", "--num_envs=32"]
    printed = dry_run(tmp_path, TASK, "--device=cpu", *words, library="skrl")
    memory = printed.size("replay memory")
    assert memory >= 100 * 32 * 4 * (4 + 4 + 1 + 1)  # observations before and after, action, reward
    assert printed["a checkpoint"].endswith("once the replay memory is full")
    assert printed.size("a checkpoint") > memory


def test_a_folder_that_cannot_be_made_is_refused_as_by_the_run(dry_run, tmp_path, capsys):
    (tmp_path / "logs").write_text("a file")
    error = dry_run(tmp_path, *SMALL, code=2)
    assert f"{tmp_path}/logs is not a folder" in error
    with contextlib.chdir(tmp_path):
        assert train("rsl_rl", SMALL) == 2
    start = "error: The run directory under "
    assert error.splitlines()[-1].startswith(start)
    assert capsys.readouterr().err.splitlines()[-1].startswith(start)


def test_each_run_of_a_sweep_is_reported(dry_run, tmp_path):
    printed = dry_run(tmp_path, TASK, "--num_envs=32", "-m", "agent.seed=1,2")
    assert re.findall(r"agent.seed .* (\d+)$", printed.text, re.MULTILINE) == ["1", "2"]


def test_memory_of_a_gpu_does_not_count_as_the_nodes(dry_run, tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr(
        "envlab.training.dry_run_text.dry_run_text", lambda plan: plans.append(plan) or ""
    )
    dry_run(tmp_path, *SMALL)
    (plan,) = plans
    (process,) = plan.processes
    assert process.host_bytes == process.footprint.total
    plan.processes = [dataclasses.replace(process, device="cuda:0", gpu_bytes=(3 << 30, 80 << 30))]
    printed = Printed(dry_run_text(plan))
    assert plan.processes[0].host_bytes == process.footprint.built
    assert printed["GPU of rank 0"].startswith("3.0 GiB of 80.0 GiB in use now, by all programs; ")


@pytest.mark.slow
def test_two_ranks_report_once(tmp_path):
    flags = [TASK, "--device=cpu", "--num_envs=32", "--max_iterations=4", "--distributed"]
    launch = Launch(torchrun(2, TRAIN, *flags, "--dry_run"), tmp_path)
    assert end([launch]) == [0], launch.output
    printed = Printed(launch.output)
    assert printed["processes"] == "2 over gloo"
    assert printed["rank 0"].endswith(" environments 0 to 31")
    assert printed["rank 1"].endswith(" environments 32 to 63")
    assert printed["environments"] == "32 per process, 64 in all"
    assert printed.number("frames") == 4 * 16 * 64
    assert printed["seed"].endswith("42 + rank for actions")
    assert "for 2 processes, of " in printed["node 0"]
    assert [path.name.split("_")[0] for path in tmp_path.iterdir()] == ["output"]


def small_learner(kind: type[torch.optim.Optimizer], **settings: float) -> SimpleNamespace:
    """Return something that trains one layer."""
    layer = torch.nn.Linear(100, 10)
    optimizer = kind(layer.parameters(), **settings)
    return SimpleNamespace(layer=layer, optimizer=optimizer, rollouts=torch.zeros(50, 100))


def test_an_optimizers_moments_are_counted_by_its_kind():
    sgd = torch.optim.SGD
    rows = [(torch.optim.Adam, {}, 2), (sgd, {"momentum": 0.9}, 1), (sgd, {}, 0)]
    for kind, settings, copies in rows:
        keep = small_learner(kind)  # objects that existed before do not count
        scale = Scale()
        learner = small_learner(kind, **settings)
        found = scale.weigh(learner)
        assert found.num_parameters == 1010
        assert (found.gradients, found.rollouts) == (4040, 20_000)
        assert found.moments == pytest.approx(copies * 4040, abs=8), (kind, settings)
        assert found.total > found.built > 0
        del keep, learner


def test_a_file_is_weighed_without_being_written(tmp_path):
    values = {"layer": torch.zeros(300, 7), "numbers": [1, 2.0, "three"]}
    torch.save(values, tmp_path / "file.pt")
    assert saved_bytes(values) == pytest.approx((tmp_path / "file.pt").stat().st_size, abs=200)


def test_changes_name_additions_and_removals():
    then = {"rewards": {"alive": {"weight": 1.0}, "speed": None}, "same": [1, 2]}
    now = {"rewards": {"alive": None, "speed": {"weight": 2.0}}, "same": [1, 2]}
    assert changes(then, now, "env") == {
        "env.rewards.alive.weight": (1.0, "absent"),
        "env.rewards.speed": (None, "absent"),
        "env.rewards.alive": ("absent", None),
        "env.rewards.speed.weight": ("absent", 2.0),
    }


def test_tensors_without_memory_of_their_own_are_skipped():
    """An export leaves such tensors in the process, by torch's tracers."""
    with FakeTensorMode():
        fake = torch.ones(1000)
    scale = Scale()
    real = torch.ones(5)
    assert scale.weigh(None).rollouts == real.nbytes
    assert fake.shape == (1000,)
