"""Sixty mistakes at the command line: each is answered with one sentence, code 2, and at once.

"At once" is processor time, which other programs on the machine do not add to: 1.5 s. Mistakes in
the words themselves are answered before torch is imported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.launcher import ROOT

LIMIT_S = 1.5
"""Processor time, in user and system mode."""
ISAAC = "--task=Isaac-Cartpole-v0"

# Mistakes in the words, and the text that the answer must contain.
EARLY = {
    f"play rsl_rl {ISAAC}": "--checkpoint pretrained plays it. Train first",
    "trian rsl_rl": "Did you mean train",
    "sweep": "-m, with several values",
    "list_envs": "envlab list",
    "train": "Name a library and a task",
    "train rslrl --task=Isaac-Ant": "there are rsl_rl",
    "train --rl_library=skrll --task=Isaac-Ant": "There is no library 'skrll'",
    "train rsl_rl": "--task",
    "train rsl_rl --task": "--task: expected one argument",
    "train rsl_rl --task=Isaac-Cartpol-v0": "Isaac-Cartpole-v0",
    "train rl_games --task=Isaac-Anymal-D": "There is no task",
    "train skrl --task=no_such_module:Task-v0": "'no_such_module'",
    "train rsl_rl --task=gym:CartPol-v1": "CartPole-v1",
    f"train rsl_rl {ISAAC} --num_envs=abc": "--num_envs: invalid int value: 'abc'",
    f"train rl_games {ISAAC} --num_envs=abc": "invalid int value",
    f"train skrl {ISAAC} --num_envs=1.5": "invalid int value: '1.5'",
    f"train rsl_rl {ISAAC} --num_env=4": "Did you mean --num_envs",
    f"train rl_games {ISAAC} --max_iteration=4": "Did you mean --max_iterations",
    f"train skrl {ISAAC} --algoritm=sac": "Did you mean --algorithm",
    f"train rsl_rl {ISAAC} --num_envs=0": "--num_envs is 0",
    f"train rl_games {ISAAC} --num_envs=-3": "--num_envs is -3",
    f"train skrl {ISAAC} --max_iterations=0": "--max_iterations is 0",
    f"train rsl_rl {ISAAC} --max_frames=-1": "--max_frames is -1",
    f"train rsl_rl {ISAAC} --num_envs=4 --global_num_envs=8": "were both given",
    f"train rsl_rl {ISAAC} --max_frames=9 --max_iterations=9": "not allowed with",
    f"train rsl_rl {ISAAC} --lr_scaling=cubic": "invalid choice: 'cubic'",
    f"train rsl_rl {ISAAC} --algorithm=ppo": "There is no flag '--algorithm'",
    f"train skrl {ISAAC} --algorithm=pppo": "invalid choice: 'pppo'",
    f"train skrl {ISAAC} --ml_framework=tensorflow": "invalid choice: 'tensorflow'",
    f"train rsl_rl {ISAAC} --timeout_s=1": "--timeout_s is 1",
    f"train rsl_rl {ISAAC} --run_id=": "--run_id is empty",
    f"train rsl_rl {ISAAC} --video_length=5": "no effect without --video",
    f"train rl_games {ISAAC} --checkpoint=x.pt": "Add --resume",
    f"train skrl {ISAAC} --load_run=x": "Add --resume",
    f"train rsl_rl {ISAAC} --resume --checkpoint=pretrained": "holds no optimizer",
    f"play rsl_rl {ISAAC} --load_run=x --checkpoint=pretrained": "--load_run has no effect",
    f"play rsl_rl {ISAAC} --as_trained": "--as_trained has no effect with --checkpoint latest",
    f"train rsl_rl {ISAAC} --distributed": "torch.distributed.run --nproc_per_node=2",
    f"train rsl_rl {ISAAC} --nproc=0": "--nproc is 0, but must be at least 1",
    f"train rsl_rl {ISAAC} --nnodes=2": "is a flag of the launcher",
    f"train skrl {ISAAC} --nnodes=2": "is a flag of the launcher",
    f"train rl_games {ISAAC} word": "'word' is neither a flag nor an override",
    f"train rsl_rl {ISAAC} env.decimation": "neither a flag nor an override",
    f"train rsl_rl {ISAAC} env.sim.dt=[1,": "is malformed",
    f"train rsl_rl {ISAAC} =3": "the key is missing",
    f"train rsl_rl {ISAAC} physics=physx": "must be one of auto, mujoco",
    f"train rsl_rl {ISAAC} presets=rgb": "Isaac Lab's presets",
    f"train rl_games {ISAAC} --sigma=1": "sigma_init",
    f"train rsl_rl {ISAAC} --config=nowhere": "nowhere is no run directory",
    f"train rsl_rl {ISAAC} --config=nowhere.yaml": "There is no file nowhere.yaml",
    f"train rsl_rl {ISAAC} --config=damaged.yaml": "is not valid YAML: line 3",
    f"train rsl_rl {ISAAC} --config=other.yaml": "has 'learning_rate'",
    f"train rsl_rl {ISAAC} --config=damaged_run": "damaged_run is no run directory",
    f"train rsl_rl {ISAAC} --config=run/params/agent.yaml": "--config=run",
    f"play rsl_rl {ISAAC} --checkpoint=./none.pt": "There is no checkpoint",
    f"play rl_games {ISAAC} --use_pretrained_checkpoint": "is --checkpoint pretrained",
    f"play skrl {ISAAC} --use_last_checkpoint --checkpoint=best": "not allowed with",
    f"play rsl_rl {ISAAC} --max_iterations=3": "There is no flag '--max_iterations'",
    f"play rsl_rl {ISAAC} --num_episodes=0": "--num_episodes is 0",
    f"config rsl_rl {ISAAC} --seed=x": "--seed: invalid int value: 'x'",
    f"random {ISAAC} --num_steps=0": "--num_steps is 0",
    "zero --task=Isaac-Cartpol-v0": "Did you mean Isaac-Cartpole-v0",
    "compare nowhere": "There is no run at 'nowhere'",
    "compare damaged_run": "cannot be read",
    "compare": "are required: RUN",
    "compare run --no_plot --force": "--force has no effect",
    "compare run --format=html": "invalid choice: 'html'",
    "new task My-Arm": "is no name for a package",
    "new library my_library": "invalid choice: 'library'",
    "runs nowhere": "There is no folder 'nowhere'",
    "runs --libary=skrl": "--libary",
    "terms rewardz": "Did you mean reward",
    "doctor --jsn": "--jsn",
    "doctor --only=gpus": "gpus",
    "doctor --timeout_s=5": "no effect without --distributed",
    "warm": "--task",
    "completion fish": "Name a shell",
}
# Mistakes in values, which show only in the task's configuration.
LATE = {
    f"train rsl_rl {ISAAC} env.scene.num_env=4": "env.scene.num_envs",
    f"train rl_games {ISAAC} agent.foo=3": "There is no 'agent.foo'",
    f"train skrl {ISAAC} agent.agent.learning_rat=1": "learning_rate",
    f"train rsl_rl {ISAAC} env.decimation=2.5": "env.decimation must be a whole number",
    f"train rsl_rl {ISAAC} agent.algorithm.gamma=high": "must be a number",
    f"train rsl_rl {ISAAC} agent.seed=1,2": "-m",
    f"train rsl_rl {ISAAC} -m agent.seed=1,2 --seed=3": "it is swept",
    f"train rsl_rl {ISAAC} -m agent.seed=interval(1,2)": "cannot be swept",
    f"train rsl_rl {ISAAC} --config=of_skrl.yaml": "is a configuration for skrl",
    f"train rsl_rl {ISAAC} --resume": "Train first",
    f"train rsl_rl {ISAAC} --device=tpu": "must be cpu, cuda",
    f"play rl_games {ISAAC} --checkpoint=./damaged.pt": "damaged.pt",
    f"config skrl {ISAAC} env.simm.dt=1": "env.sim.dt",
    f"config skrl {ISAAC} --agent=skrl_nothing": "no agent configuration",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which the mistakes are made."""
    folder = tmp_path_factory.mktemp("mistakes")
    files = {
        "damaged.yaml": "task: Isaac-Cartpole-v0\nenv: [1, 2\n",
        "other.yaml": "task: Isaac-Cartpole-v0\nlearning_rate: 1\n",
        "of_skrl.yaml": "task: Isaac-Cartpole-v0\nlibrary: skrl\n",
        "damaged.pt": "no checkpoint",
        "damaged_run/run.json": '{"task": ',
        "run/run.json": '{"task": "Isaac-Cartpole-v0", "library": "rsl_rl"}',
        "run/params/agent.yaml": "seed: 1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def environment() -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "source")))
    return os.environ | {"PYTHONPATH": paths}


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, dict[str, object]]:
    return ask(folder, EARLY, LATE)


def ask(
    folder: Path, early: Iterable[str], late: Iterable[str] = ()
) -> dict[str, dict[str, object]]:
    """Return the answer to each mistake, its cost, and whether it loads torch."""
    asked = {"early": [line.split() for line in early], "late": [line.split() for line in late]}
    done = subprocess.run(
        [sys.executable, ROOT / "tests/worker_mistakes.py"],
        input=json.dumps(asked),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([*early, *late], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("line", [*EARLY, *LATE])
def test_a_mistake_is_answered_with_one_sentence_at_once(answers, line: str):
    check(answers[line], (EARLY | LATE)[line])
    if line in EARLY:
        assert not answers[line]["loads_torch"]


def check(answer: Mapping[str, Any], words: str) -> None:
    """Require one sentence with these words, at once."""
    assert answer["code"] == 2, answer
    assert answer["out"] == ""
    assert re.fullmatch(r"error: [^\n]+\n", answer["err"]), answer["err"]
    assert words in answer["err"]
    assert answer["cpu_s"] < LIMIT_S


@pytest.mark.parametrize("line", [f"train skrl {ISAAC} --num_envs=abc", "compare nowhere"])
def test_the_limit_includes_the_start_of_python(folder: Path, line: str):
    process = subprocess.Popen(
        [sys.executable, "-m", "envlab", *line.split()],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, error.count("\n")) == (2, 1)
    assert usage.ru_utime + usage.ru_stime < LIMIT_S


def test_nothing_is_written(answers, folder: Path):
    assert not (folder / "logs").exists()
