"""Training and playing at a Python prompt, in addition to :func:`envlab.make`.

Both work like the command line: flags have the same names and the same errors, here raised as an
:class:`~envlab.errors.EnvlabError`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envlab.distributed.interrupt import SIGNALS
from envlab.errors import CheckpointError, ConfigurationError, EnvlabError
from envlab.interrupts import INTERRUPTED
from envlab.libraries import default_library, get_library
from envlab.registry import get_task
from envlab.run.commands import library_words
from envlab.run.manifest import LOG_ROOT
from envlab.run.pretrained import SELECTOR, fetch, is_remote, policies
from envlab.run.training_run import TrainingRun, runs
from envlab.training.flags import PORT

if TYPE_CHECKING:  # which loads torch
    from envlab.training.play import OpenedPolicy

_WITHOUT_A_RUN = ("dry_run", "multirun", "distributed")
"""Flags of ``envlab train`` that do not result in one run."""


def train(
    task_id: str,
    *,
    library: str | None = None,
    overrides: Sequence[str] = (),
    num_envs: int | None = None,
    max_iterations: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    nproc: int | None = None,
    **flags: Any,
) -> TrainingRun:
    """Train a task to the end, as ``envlab train`` does, and return the run.

    ``envlab.train("Isaac-Cartpole-v0", max_iterations=50).mean_return``. It trains in this process,
    so that tasks registered here can be trained, or in several started by ``nproc``, which know
    only installed tasks. Ctrl-C saves, as on the command line, before KeyboardInterrupt is raised.

    Args:
        task_id: An id from ``envlab.list_tasks()``.
        library: ``rsl_rl``, ``skrl``, ...; None: the first with a configuration for the task.
        overrides: Changes of the configuration: ``["agent.algorithm.gamma=0.98"]``.
        num_envs: Environments of each process; None: the task's; on a CPU, suited to the machine.
        max_iterations: Iterations in total; None: the agent's.
        seed: Base seed; None: the agent's.
        device: ``cpu``, ``cuda`` or ``cuda:<index>``; None: a GPU if there is one.
        nproc: Number of processes to start on this machine; None: none.
        flags: Any other flag of ``envlab train LIBRARY --help``: ``run_name="a", resume=True``.

    Raises:
        EnvlabError: For bad input, before anything is written, or if processes end in an error,
            which they print.
        KeyboardInterrupt: After Ctrl-C, once the run is saved.
    """
    from envlab.training.arguments import read_words
    from envlab.training.launch import run_training, train_with

    way = get_library(library or default_library(get_task(task_id)))
    given = {
        **{"task": task_id, "num_envs": num_envs, "max_iterations": max_iterations},
        **{"seed": seed, "device": device, "nproc": nproc, **flags},
    }
    for name in _WITHOUT_A_RUN:
        if given.get(name):
            raise ConfigurationError(
                f"envlab.train returns one run, which {name} does not end in. Use the command "
                "line for it."
            )
    words = [*_words(given), *overrides]
    start = datetime.now().astimezone()
    with _as_command("train", way.name, *words):
        if nproc is not None:
            code = train_with(way, words)
            directory = _newest_since(start, way.name)
        else:
            found: list[Path | None] = []
            code = run_training(way, *read_words("train", way, words), found)
            directory = next(iter(found), None)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code or directory is None:
        raise EnvlabError(
            f"Training {task_id} with {way.name} ended with exit code {code}, and without a "
            "finished run. See the output above for the reason."
        )
    return TrainingRun.open(directory)


@dataclass(frozen=True, kw_only=True)
class LoadedPolicy:
    """A trained policy, which maps observations to actions: ``policy(obs)``."""

    env: Any = field(repr=False)
    """Its environments, made like those of its run; yours to reset, step and close."""
    task: str
    """Id of their task."""
    checkpoint: Path
    """Its file."""
    _opened: OpenedPolicy = field(repr=False)
    _open_more: Callable[[int], OpenedPolicy] | None = field(repr=False, default=None)
    """Opens the policy in other environments, of which it is given the number; None: only these."""

    def __call__(self, obs: Mapping[str, Any]) -> Any:
        """Return the best actions, ``(num_envs, num_actions)``, for observations of :attr:`env`."""
        import torch

        with torch.inference_mode():
            return self._opened.player.act(dict(obs))

    def evaluate(self, num_episodes: int | None = None) -> dict[str, Any]:
        """Play whole episodes, and return what ``envlab play --json`` writes of them.

        Args:
            num_episodes: Minimum number; each environment plays equally many. None: 64.

        They are played in :attr:`env` if :func:`load_policy` was given a number of environments;
        else in separate ones, up to 64 as in ``envlab play``, because a single environment would
        take long.

        Raises:
            ConfigurationError: For a number below 1.
        """
        import torch

        from envlab.envs.checks import positive
        from envlab.training.evaluation import evaluate
        from envlab.training.play import NUM_ENVS

        count = NUM_ENVS if num_episodes is None else positive("num_episodes", num_episodes)
        others = self._open_more(min(count, NUM_ENVS)) if self._open_more else None
        opened, env = (others, others.team()) if others else (self._opened, self.env)
        per_env = math.ceil(count / env.num_envs)
        try:
            with torch.inference_mode():
                return evaluate(env, opened.player.act, per_env).as_dict()
        finally:
            if others:
                env.close()

    def view(self, *, seconds: float | None = None, port: int = PORT) -> None:
        """Play live in the browser, or below the cell of a notebook, as ``envlab view`` does.

        Args:
            seconds: Duration, in seconds of the simulation; None: until the page's "End", or
                Ctrl-C.
            port: The port on this machine, or the next free one.

        Raises:
            ConfigurationError: If the viewer is not installed, or the task has nothing to show.
        """
        import torch

        from envlab.training.play_watched import play_watched
        from envlab.training.viewing import check_viewing, start_viewing

        flags = dataclasses.replace(self._opened.plan.flags, viz="web", viz_port=port)
        check_viewing(flags, self._opened.env)
        viewer = start_viewing(
            flags, self._opened.env, title=f"{self.task}, played", is_played=True
        )
        assert viewer is not None, "this process has no other ranks"
        viewer.label = self._opened.label
        num_steps = math.inf if seconds is None else math.ceil(seconds / self.env.step_dt)
        try:
            _show_below(viewer)
            with torch.inference_mode(), contextlib.suppress(KeyboardInterrupt):
                play_watched(self.env, self._opened.player, viewer, None, num_steps)
        finally:
            viewer.close()


def load_policy(
    source: str | Path | TrainingRun,
    *,
    checkpoint: str = "latest",
    num_envs: int | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    device: str | None = None,
    as_trained: bool = False,
    trust: Sequence[str] = (),
) -> LoadedPolicy:
    """Return a trained policy with its own environments.

    ``policy = envlab.load_policy("Isaac-Ant-v0", num_envs=16)``, then ``policy.evaluate()``, or
    ``obs, _ = policy.env.reset()`` and ``policy.env.step(policy(obs))``.

    Args:
        source: A run, its directory, a checkpoint's file, ``hf:OWNER/NAME`` or
            ``wandb:ENTITY/PROJECT/RUN`` (docs/trackers.md), or the id of a task for which a policy
            is installed (docs/results.md).
        checkpoint: Checkpoint of a run: ``latest``, ``best``, or a file's name.
        num_envs: Number of environments; None: one, and others for ``evaluate()``.
        overrides: Changes of their configuration: ``["env.decimation=2"]``.
        seed: Base seed; None: the agent's.
        device: ``cpu``, ``cuda`` or ``cuda:<index>``; None: a GPU if there is one.
        as_trained: Whether an installed policy takes the environment that it was trained in, also
            where that differs from the task's. Those of runs always do.
        trust: Modules whose code the run's files may name, as by ``--trust``.

    Raises:
        EnvlabError: If there is no such policy, or it cannot be read or played.
    """
    from envlab.training.arguments import read_words
    from envlab.training.inputs import check_task, trust_of
    from envlab.training.play import open_policy

    manifest, path = _find(source, checkpoint)
    check_task(str(manifest["task"]), trust_of(trust, typed=[str(source)]))
    name, *choices = library_words(manifest)
    flags = {"task": manifest["task"], "checkpoint": path, "num_envs": num_envs}
    flags |= {"as_trained": as_trained, "trust": list(trust)}
    words = [*choices, *_words({**flags, "seed": seed, "device": device}), *overrides]
    library = get_library(name)
    flags_read, read = read_words("play", library, words)
    opened = open_policy(library, flags_read, read, 1, renders=True)
    return LoadedPolicy(
        env=opened.team(),
        task=opened.plan.task.id,
        checkpoint=opened.checkpoint,
        _opened=opened,
        _open_more=None if num_envs else functools.partial(open_policy, library, flags_read, read),
    )


def _show_below(viewer: Any) -> None:
    """Show the viewer's page below the cell of a notebook, if this is one."""
    if "ipykernel" in sys.modules:
        from IPython.display import HTML, display

        display(HTML(framed(viewer.address)))


def framed(address: str) -> str:
    """Return HTML that shows a page of this machine within another one.

    The page is requested by the outer page's host name, localhost or 127.0.0.1: with the other one,
    a browser withholds the cookie that admits a visitor.
    """
    name = f"envlab-{secrets.token_hex(4)}"
    return (
        f'<iframe id="{name}" width="100%" height="480" style="border:0"></iframe><script>'
        f'{{const page = new URL("{address}"), here = location.hostname; '
        'if (["localhost", "127.0.0.1"].includes(here)) page.hostname = here; '
        f'document.getElementById("{name}").src = page}}</script>'
    )


def _find(source: str | Path | TrainingRun, checkpoint: str) -> tuple[Mapping[str, Any], str]:
    """Return the manifest of a policy's run, and the value of ``--checkpoint`` for it.

    Raises:
        EnvlabError: If there is none.
    """
    if isinstance(source, TrainingRun):
        return source.manifest, str(source.checkpoint(checkpoint))
    path = fetch(str(source)) if is_remote(str(source)) else Path(source)
    if (path / "run.json").is_file():
        return _find(TrainingRun.open(path), checkpoint)
    if path.is_file():
        return TrainingRun.open(path.parent.parent).manifest, str(path)
    if isinstance(source, Path) or path.exists() or len(path.parts) > 1:
        raise CheckpointError(
            f"{source} is neither a run directory nor a checkpoint. Give one that 'envlab.runs()' "
            "has, or the id of a task."
        )
    task = get_task(str(source))
    of_task = policies({task.id, task.trained_id})
    if not of_task:
        known = sorted({str(policy.manifest["task"]) for policy in policies()})
        raise CheckpointError(
            f"No policy of {task.id} is installed; there are some of {', '.join(known)}. Train "
            "one, and give its run."
        )
    return {**of_task[0].manifest, "task": task.id}, SELECTOR


def _words(flags: Mapping[str, Any]) -> list[str]:
    """Return flags as words of the command line; those that are None or False are omitted."""
    return [
        f"--{name}" if each is True else f"--{name}={each}"
        for name, value in flags.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None and each is not False
    ]


@contextlib.contextmanager
def _as_command(*words: str) -> Iterator[None]:
    """Let a run's manifest name the equivalent command, for its resume.

    An interrupted command ignores further signals until its process ends; this one continues.
    """
    before, handlers = sys.argv, {number: signal.getsignal(number) for number in SIGNALS}
    sys.argv = ["envlab", *words]
    try:
        yield
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _newest_since(start: datetime, library: str) -> Path | None:
    """Return the directory of the newest run of a library that other processes have started."""
    if not Path(LOG_ROOT).is_dir():
        return None
    found = [
        run.directory
        for run in runs(library=library)
        if datetime.fromisoformat(run.manifest["created_at"]).astimezone()
        >= start.replace(microsecond=0)
    ]
    return found[-1] if found else None
