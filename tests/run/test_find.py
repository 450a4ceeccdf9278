"""The other runs that are suggested where the requested run is missing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError, RunDirectoryError
from envlab.registry import get_task
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.run.directory import Run
from envlab.run.find import find_run
from envlab.skrl.cfg import SkrlCfg
from envlab.training.opening import check_origin

TASK = "Isaac-Cartpole-v0"
PPO = {"algorithm": "ppo", "ml_framework": "torch"}


def make(folder: Path, library: str, experiment: str, *, iterations: int = 1, **facts: Any) -> Path:
    named = {"library": library, "experiment": experiment, "facts": {"task": TASK, **facts}}
    run = Run.create(DistributedContext(), **named, configs={}, root=str(folder))
    run.update(created_at=f"2030-01-01T00:00:0{len(list(folder.glob('*/*/*')))}")
    for iteration in range(iterations):
        (run.checkpoints / f"model_{iteration}.pt").touch()
    return run.directory


def refusal(folder: Path, load_run: str | None = None, task: str = TASK) -> str:
    """Return the error of resuming a run of skrl's PPO on PyTorch."""
    with pytest.raises(RunDirectoryError) as caught:
        find_run("skrl", "cartpole", load_run, str(folder), origin=PPO, tasks={task})
    return str(caught.value)


def test_a_run_of_another_algorithm_is_named_with_its_flags(tmp_path: Path):
    for load_run in [None, "20"]:
        run = make(tmp_path, "skrl", "isaac-cartpole", algorithm="sac", ml_framework="torch")
        make(tmp_path, "rsl_rl", "cartpole")  # newer, but of another library
        message = refusal(tmp_path, load_run)
        assert message.startswith("There is no run with a checkpoint of ppo, torch")
        assert message.endswith(
            f"There is {run}, which was trained with --algorithm=sac: add that."
        )


def test_a_run_of_another_framework_and_one_of_another_experiment_are_named(tmp_path: Path):
    make(tmp_path, "skrl", "cartpole", algorithm="sac", ml_framework="jax")
    assert "with --algorithm=sac --ml_framework=jax: add that" in refusal(tmp_path)
    make(tmp_path, "skrl", "mine", **PPO)
    assert "with --experiment_name=mine: add that" in refusal(tmp_path)


def test_a_run_of_another_library_is_named_and_a_damaged_one_does_not_hide_it(tmp_path: Path):
    run = make(tmp_path, "rl_games", "cartpole")
    (tmp_path / "rsl_rl/cartpole/2030").mkdir(parents=True)
    (tmp_path / "rsl_rl/cartpole/2030/run.json").write_text("{")
    expected = f"{run}, which was trained with rl_games: use that library's script."
    assert expected in refusal(tmp_path)


@pytest.mark.parametrize("other", ["task", "name", "checkpoint"])
def test_an_unsuitable_run_is_not_named(tmp_path: Path, other: str):
    run = make(tmp_path, "rsl_rl", "cartpole", iterations=int(other != "checkpoint"))
    load_run = "1999" if other == "name" else None
    message = refusal(tmp_path, load_run, task="Other-v0" if other == "task" else TASK)
    assert str(run) not in message
    assert message.endswith("Train first, or give a checkpoint's path with --checkpoint.")


def test_a_run_that_ended_before_its_first_checkpoint_is_named(tmp_path: Path):
    run = make(tmp_path, "skrl", "cartpole", iterations=0, **PPO)
    assert f"{run} has none yet: wait for its first one, or start it again" in refusal(tmp_path)


def test_a_policy_that_comes_with_envlab_is_named(tmp_path: Path):
    with pytest.raises(RunDirectoryError, match="already exists: --checkpoint pretrained plays it"):
        find_run("rsl_rl", "cartpole", None, str(tmp_path), tasks={TASK})


def asked(library: str, agent_cfg: Any) -> Any:
    """Return a plan with which a checkpoint's origin is compared."""
    names = SimpleNamespace(name=library)
    return SimpleNamespace(task=get_task(TASK), library=names, agent_cfg=agent_cfg)


HEADER = {
    **{"iteration": 1, "frames": 100, "seed": 0, "world_size": 1, "num_envs": 4},
    **{"model": {}, "metrics": {}, "ranks": [{}], "services": {}, "learning_rate_factor": 1.0},
}


def test_a_checkpoint_with_a_damaged_header_is_refused():
    for value in [None, -1, 10**30, "1", [1], True]:
        for name in HEADER:
            values = {"library": "skrl", "task": TASK, **PPO, **HEADER, name: value}
            with pytest.raises(CheckpointError, match=rf"model_1\.pt is damaged.*: .*\b{name}\b"):
                check_origin(values, Path("model_1.pt"), plan=asked("skrl", SkrlCfg()))


def test_a_checkpoint_of_something_else_is_refused_with_the_flags_it_needs():
    for values, advice in [
        ({"library": "rsl_rl"}, "'rsl_rl', but 'skrl' .* or use its own library's script"),
        ({"task": "Isaac-Ant-v0"}, r"or give --task=Isaac-Ant-v0\."),
        ({"algorithm": "sac"}, r"'sac', but 'ppo' was requested.* or give --algorithm=sac\."),
        ({"ml_framework": "jax"}, r"or give --ml_framework=jax\."),
    ]:
        own = {"library": "skrl", "task": TASK, **PPO, **HEADER}
        path = Path("model_1.pt")
        check_origin(own, path, plan=asked("skrl", SkrlCfg()))
        with pytest.raises(CheckpointError, match=advice):
            check_origin(own | values, path, plan=asked("skrl", SkrlCfg()))
        check_origin(own | {"library": "rsl_rl"}, path, plan=asked("rsl_rl", RslRlCfg()))
