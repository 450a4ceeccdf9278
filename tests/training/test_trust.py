"""An untrusted run directory runs none of its code, whatever its files contain.

Every text in the files of real runs, keys included, is replaced by each payload, and the commands
that read a run are run on it in this process. A payload would touch a file, import an untrusted
module, or copy an environment variable: an audit hook of Python's notices the first two, whoever
does them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tensordict import TensorDict

import envlab
from envlab.cli import main
from envlab.config import Trust, load_yaml, resolve
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError, EnvlabError, RunDirectoryError
from envlab.rsl_rl.distillation import open_teacher
from envlab.run.directory import Run
from tests.launcher import ROOT

DATA = ROOT / "tests/data/runs"
"""Runs of Cartpole for two iterations on two ranks."""
RUNS = {
    "rsl_rl": "rsl_rl/rsl_rl/2026-11-28_07-38-43",
    "rl_games": "rl_games/rl_games/2026-11-28_07-40-04",
    "skrl": "skrl/skrl_ppo/2026-11-28_07-41-21_ppo_torch",
    "skrl --ml_framework=jax": "skrl/skrl_jax/2026-11-28_07-49-16_ppo_jax",
}
FILES = ("params/env.yaml", "params/agent.yaml", "run.json")
SECRET = "a secret of this machine"
PLACE = "PLACEOFTHEPAYLOAD"
BAIT = "bait_of_a_stranger"
"""A module that reveals when it is imported or called."""


PAYLOADS = (
    *(f"{BAIT}:fire", f"{BAIT}.fire", f"{BAIT}:data.xml", f"__import__('{BAIT}').fire()"),
    f"OBSERVATIONS + __import__('{BAIT}').fire()",
    f'", x=__import__("{BAIT}").fire(), y="',
    *("os:system", "pydoc:pipepager", "envlab.envs.vector_env:tempfile._os.system"),
    *("envlab.task:load_entry_point", "${oc.env:ENVLAB_TEST_SECRET}"),
    *(f"!!python/object/apply:{BAIT}.fire []", f"!!python/name:{BAIT}.fire ''"),
    "../../../../escaped",
)
"""Malicious replacements of a text; tags are written into the file as they are, the others in
quotes."""


class Canary:
    """Notes the actions of payloads, once it is armed."""

    def __init__(self) -> None:
        self.is_armed = False
        self.sung: list[str] = []
        sys.addaudithook(self._hear)  # for good: Python has no way to remove one

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_armed:
            return
        if event in ("os.system", "os.exec", "os.posix_spawn", "pty.spawn"):
            self.sung.append(f"{event} {arguments[0]!r}")
        # The body of a module, which each way to import it executes.
        elif event == "exec" and BAIT in str(getattr(arguments[0], "co_filename", "")):
            self.sung.append(f"import {BAIT}")

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        sys.modules.pop(BAIT, None)
        self.is_armed, self.sung = True, []
        try:
            yield
        finally:
            self.is_armed = False


@pytest.fixture(scope="module")
def canary() -> Canary:
    return Canary()


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs, in which an untrusted module can be imported."""
    shutil.copytree(DATA, tmp_path / "logs")
    (tmp_path / f"{BAIT}.py").write_text("def fire(*args, **kwargs):\n    return 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVLAB_TEST_SECRET", SECRET)
    # Counting takes --dry_run ten times as long as all that it reads and builds.
    monkeypatch.setattr("envlab.training.footprint.living", list)
    monkeypatch.setattr("gc.collect", lambda *_: 0)
    return tmp_path


def texts_in(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where texts stand: a path of keys, which ends in ``KEY`` for the text of a key."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key, "KEY")
            yield from texts_in(value, (*path, key))
    elif isinstance(values, list):
        for position, value in enumerate(values):
            yield from texts_in(value, (*path, position))
    elif isinstance(values, str):
        yield path


def replaced(values: Any, path: tuple[Any, ...]) -> Any:
    """Return ``values`` with the text at a path replaced by ``PLACE``."""
    if not path:
        return PLACE
    first, *rest = path
    if rest == ["KEY"]:
        return {PLACE if key == first else key: value for key, value in values.items()}
    if isinstance(values, dict):
        return values | {first: replaced(values[first], tuple(rest))}
    return [replaced(v, tuple(rest)) if i == first else v for i, v in enumerate(values)]


def plant(run: Path, file: str, path: tuple[Any, ...], payload: str) -> None:
    """Write a file of a run with a payload in place of one text."""
    planted, quoted = replaced(load_yaml(DATA / run / file), path), json.dumps(payload)
    if file.endswith(".json"):
        text = json.dumps(planted).replace(f'"{PLACE}"', quoted).replace(PLACE, "x")
    else:
        text = yaml.safe_dump(planted, sort_keys=False)
        text = text.replace(PLACE, payload if payload.startswith("!!") else quoted)
    (Path("logs") / run / file).write_text(text)


def commands(library: str) -> dict[str, list[str]]:
    """Return the commands that read a run, by name."""
    run = f"logs/{RUNS[library]}"
    words = [*library.split(), "--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=8"]
    checkpoint = f"--checkpoint={run}/checkpoints/model_2.pt"
    quick = ["env.episode_length_s=0.04", "--num_episodes=8", "--no_export"]
    return {
        "play": ["play", *words, checkpoint, *quick],
        "config": ["train", *words, f"--config={run}", "--dry_run"],
        "resume": ["train", *words, "--resume", checkpoint, "--max_iterations=6", "--dry_run"],
        "compare": ["compare", run, "--format=json", "--no_plot"],
    }


Case = tuple[str, str, tuple[Any, ...], str]


def attempt(case: Case, command: str, canary: Canary, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command on a planted run, and fail if a payload did something."""
    library, file, path, payload = case
    plant(Path(RUNS[library]), file, path, payload)
    shutil.rmtree("escaped", ignore_errors=True)
    try:
        with canary.armed():
            try:
                code: int | str = main(commands(library)[command])
            except Exception as error:  # a traceback is ugly, but runs nothing
                code = f"{type(error).__name__}: {error}"
    finally:
        shutil.copy(DATA / RUNS[library] / file, Path("logs") / RUNS[library] / file)
    where = f"{command} of {library} with {payload!r} at {file}:{'.'.join(map(str, path))}"
    assert not canary.sung, f"{where} did {canary.sung}"
    out, err = capsys.readouterr()
    assert SECRET not in f"{out}{err}{code}", f"{where} tells a secret"
    assert not list(Path.cwd().parent.rglob("escaped")), f"{where} left the run directory"


FUNC = "rewards", "alive", "func"
INPUT = "models", "policy", "network", 0, "input"
HOLES: dict[str, tuple[str, Case]] = {
    "a term": ("play", ("rsl_rl", FILES[0], FUNC, PAYLOADS[0])),
    "a term of a configuration": ("config", ("rl_games", FILES[0], FUNC, PAYLOADS[0])),
    "a class": ("play", ("rsl_rl", FILES[1], ("actor", "class_name"), PAYLOADS[1])),
    "a network": ("play", ("skrl", FILES[1], INPUT, PAYLOADS[3])),
    "a network on JAX": ("config", ("skrl --ml_framework=jax", FILES[1], INPUT, PAYLOADS[3])),
    "a function": ("resume", ("skrl", FILES[1], ("agent", "rewards_shaper"), PAYLOADS[0])),
    "a model": ("config", ("rsl_rl", FILES[0], ("scene", "model"), PAYLOADS[2])),
    "a secret": ("config", ("rsl_rl", FILES[1], ("experiment_name",), PAYLOADS[10])),
    "a tag": ("config", ("rsl_rl", FILES[1], ("experiment_name",), PAYLOADS[11])),
}
"""Where code of a file did run, or would if it were not checked."""


@pytest.mark.parametrize("hole", HOLES)
def test_texts_that_once_ran_code_run_nothing(hole: str, stranger: Path, canary: Canary, capsys):
    command, case = HOLES[hole]
    if "jax" in case[0]:
        pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
    attempt(case, command, canary, capsys)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("envlab.envs.vector_env:VectorEnv.__init__", "no task or library"),
        ("envlab.envs.mdp.rewards:is_alive.__call__", "names something private"),
        ("envlab.envs.mdp.rewards:is_alive", "no class or function that the library accepts"),
    ],
)
def test_a_name_of_no_network_is_not_called_with_untrusted_arguments(
    name: str, reason: str, stranger: Path, canary: Canary, capsys: pytest.CaptureFixture[str]
):
    """The first name would import the module that another key of the file names."""
    file = Path("logs") / RUNS["rsl_rl"] / FILES[1]
    values = load_yaml(file)
    arguments = {"class_name": name, "cfg": None, "env_cfg_entry_point": BAIT}
    values["actor"]["distribution_cfg"] = arguments
    file.write_text(yaml.safe_dump(values))
    with canary.armed():
        assert main(commands("rsl_rl")["play"]) == 2
    assert not canary.sung
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("link", ["exported", "exported/policy.onnx", "metrics.jsonl"])
def test_neither_play_nor_a_continued_run_overwrites_the_target_of_a_link(
    link: str, stranger: Path, capsys: pytest.CaptureFixture[str]
):
    run = Path("logs") / RUNS["rsl_rl"]
    victim = stranger / "victim"
    victim.write_text("precious")
    path = run / link
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(victim)
    words = [word for word in commands("rsl_rl")["play"] if word != "--no_export"]
    assert main(words) == 2
    assert "leads out of the run directory" in capsys.readouterr().err
    with pytest.raises(RunDirectoryError, match="leads out of the run directory"):
        Run.reopen(
            DistributedContext.single("cpu"), run, library="rsl_rl", facts={}, iteration=4, frames=0
        )
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("hole", ["a term", "a term of a configuration", "a class", "a function"])
def test_the_canary_sings_with_the_gate_open(
    hole: str, stranger: Path, canary: Canary, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Trust, "resolve", lambda _, reference: resolve(reference))
    command, case = HOLES[hole]
    with pytest.raises(AssertionError, match=f"import {BAIT}"):
        attempt(case, command, canary, capsys)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("library", "file"),
    # The runs' environments are the same.
    [("rsl_rl", FILES[0]), *((library, file) for library in RUNS for file in FILES[1:])],
)
def test_no_payload_runs_anything(library: str, file: str, stranger: Path, canary: Canary, capsys):
    """Each text with each payload, by alternating commands; keys with two payloads."""
    if "jax" in library:
        pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
    names = itertools.cycle(commands(library))
    for path in texts_in(load_yaml(DATA / RUNS[library] / file)):
        for payload in PAYLOADS[3:12:8] if path[-1] == "KEY" else PAYLOADS:
            attempt((library, file, path, payload), next(names), canary, capsys)


def test_a_runs_task_is_no_strangers_module(stranger: Path, canary: Canary, capsys):
    """Commands that are not told the task take the run's."""
    run = Path("logs") / RUNS["rsl_rl"]
    manifest = json.loads((run / "run.json").read_text())
    for task in (f"{BAIT}:X-v0", f"gym:{BAIT}:X-v0", "gym:envlab.__main__:X-v0"):
        (run / "run.json").write_text(json.dumps({**manifest, "task": task}))
        with canary.armed():
            assert main(["validate", str(run), "--num_episodes=1"]) == 2
            assert "comes from a file and names code of" in capsys.readouterr().err
            with pytest.raises(ConfigurationError, match="comes from a file and names code"):
                envlab.load_policy(run)
        assert not canary.sung
    (run / "run.json").write_text(json.dumps({**manifest, "task": f"gym:{BAIT}:X-v0"}))
    with canary.armed(), pytest.raises(EnvlabError, match="Gymnasium has no environment 'X-v0'"):
        envlab.load_policy(run, trust=[BAIT])
    assert canary.sung


def test_a_teachers_task_is_no_strangers_module(stranger: Path, canary: Canary):
    given = {"library": "skrl", "task": f"gym:{BAIT}:X-v0", "files": {"run.json": "{}"}}
    context = DistributedContext.single("cpu")
    with canary.armed(), pytest.raises(ConfigurationError, match=f"names code of {BAIT}"):
        open_teacher(given, TensorDict(), 1, [], context)
    assert not canary.sung


def test_untouched_runs_are_read(stranger: Path):
    read = {name: ["play", "config"] for name in RUNS} | {"rsl_rl": list(commands("rsl_rl"))}
    for library, names in read.items():
        for name in ["config"] if "jax" in library else names:
            assert main(commands(library)[name]) == 0, (library, name)
