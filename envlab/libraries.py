"""The single table of training libraries, which the command line, doctor and docs read.

A third party's library registers by being installed, like tasks: an entry point of the group
``envlab.libraries`` names a :class:`Library`. One that cannot be loaded is reported and skipped.
Reading the table imports no library and no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envlab.errors import ConfigurationError, did_you_mean
from envlab.plugins import load_plugins
from envlab.registry import load_entry_point, packages_of, without_guests
from envlab.task import Task

ENTRY_POINT_GROUP = "envlab.libraries"


@dataclass(frozen=True, kw_only=True)
class Library:
    """A way to train. Its parts are named as ``module:name`` and loaded when needed."""

    name: str
    """As in ``envlab train NAME``, ``logs/NAME`` and ``NAME_cfg_entry_point``."""
    cfg: str
    """``(flags) -> AgentCfg``: the default configuration; see :mod:`envlab.agent_cfg`."""
    build: str
    """``(plan, env, context) -> Learner``: see :class:`envlab.training.plan.RunPlan` and
    :class:`envlab.learner.Learner`."""
    player: str
    """``(plan, env, context, values) -> Player``, where values are a checkpoint's."""
    description: str
    """A line for ``envlab --help``."""
    bound: str | None = None
    """``(cfg, env) -> ActionBound | None``: the bound that the agent's configuration, and not the
    task, sets to actions; see :mod:`envlab.envs.action_use`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Packages that it trains with, whose versions must be the same on all ranks; with the module
    of each to import as a test, or nothing."""
    flags: str | None = None
    """A subclass of :class:`envlab.training.flags.Flags` that adds the library's own."""
    has_members: bool = False
    """Whether a guest can train several of its learners in one process."""
    averages: bool = False
    """Whether its learners can learn alone and be averaged, by ``--grad_sync local``."""
    env: str | None = None
    """``(plan, context) -> env``: makes its environments, if they are not one batch of the
    task's."""
    deals_environments: bool = True
    """Whether a run can keep its environments when it resumes on another number of processes; not
    if each process has its own members."""
    deal: str | None = None
    """``(saved, num_ranks) -> parts``: what each of another number of processes gets of a
    checkpoint, if not its environments: see :func:`envlab.training.continuation.parts_of`."""
    old_state: str | None = None
    """``(state) -> state``: what its learner declares, from what a rank of it remembered in
    checkpoints of format 1; None if there are none with other names."""
    takes_policies: bool = False
    """Whether ``--checkpoint`` without ``--resume`` gives a new run a policy to begin with, such as
    a teacher: :attr:`envlab.training.plan.Start.policy`."""
    prepare: str | None = None
    """``(command, words, num_nodes=None) -> words``: the flags and overrides for the words after
    ``train``, ``play`` or ``config LIBRARY``, if a file describes the training."""
    file_flag: str | None = None
    """The flag that names this file, instead of ``--task``. The file may also come first."""
    file_flags: tuple[str, ...] = ()
    """Flags with arguments of the file."""

    def default_cfg(self, flags: Any) -> Any:
        """Return the configuration under a task's own values and overrides."""
        return load_entry_point(self.cfg)(flags)

    def load(self, part: str) -> Callable[..., Any]:
        """Return the function behind ``build``, ``player``, ``bound``, ``deal`` or ``prepare``.

        Raises:
            ConfigurationError: If there is no such module or name, or it is for envlab 0.1.
        """
        try:
            function: Callable[..., Any] = load_entry_point(getattr(self, part))
        except ConfigurationError as error:
            if getattr(error.__cause__, "name", "") != "envlab.training.session":
                raise
            raise ConfigurationError(
                f"The library {self.name} was written for envlab 0.1: its {part}, "
                f"{getattr(self, part)}, imports envlab.training.session. Have it take an "
                "envlab.training.plan.RunPlan instead of a Session, as CONTRIBUTING.md shows."
            ) from None
        return function

    def with_file_flag(self, words: Sequence[str]) -> list[str]:
        """Return words in which a leading Python file is preceded by its flag."""
        first = words[0].partition(":")[0] if words else ""
        if self.file_flag and first.endswith(".py") and not first.startswith("-"):
            return [f"--{self.file_flag}={words[0]}", *words[1:]]
        return list(words)

    def file_values(self, flags: Any) -> dict[str, Any]:
        """Return the given flags that name a file and its arguments."""
        names = (self.file_flag, *self.file_flags) if self.file_flag else ()
        return {
            name: value for name in names if (value := getattr(flags, name)) not in (None, False)
        }

    def file_words(self, flags: Any) -> list[str]:
        """Return :meth:`file_values` as words."""
        given = self.file_values(flags).items()
        return [f"--{name}" if value is True else f"--{name}={value}" for name, value in given]


CORE = (
    Library(
        name="rsl_rl",
        cfg="envlab.rsl_rl.cfg:default_cfg",
        build="envlab.rsl_rl.learner:build",
        player="envlab.rsl_rl.play:RslRlPlayer",
        bound="envlab.rsl_rl.checks:action_bound",
        description="PPO and distillation by rsl_rl, as legged robots are trained with",
        packages={"rsl-rl-lib": "rsl_rl.runners", "tensordict": ""},
        has_members=True,
        averages=True,
        takes_policies=True,
    ),
    Library(
        name="rl_games",
        cfg="envlab.rl_games.cfg:default_cfg",
        build="envlab.rl_games.learner:build",
        player="envlab.rl_games.play:RlGamesPlayer",
        bound="envlab.rl_games.checks:action_bound",
        description="PPO, continuous and discrete, and SAC by rl_games",
        packages={"rl-games": "rl_games.torch_runner"},
        has_members=True,
        averages=True,
    ),
    Library(
        name="skrl",
        cfg="envlab.skrl.main:default_cfg",
        build="envlab.skrl.main:build",
        player="envlab.skrl.main:make_player",
        bound="envlab.skrl.checks:action_bound",
        flags="envlab.skrl.flags:SkrlFlags",
        description="a dozen algorithms, also for several agents, by skrl on PyTorch or JAX",
        packages={"skrl": "skrl.agents.torch.ppo"},
        has_members=True,
        averages=True,
    ),
    Library(
        name="fast_sac",
        cfg="envlab.fast_sac.cfg:default_cfg",
        build="envlab.fast_sac.learner:build",
        player="envlab.fast_sac.play:FastSacPlayer",
        bound="envlab.fast_sac.checks:action_bound",
        description="FastSAC: off-policy learning from many environments, by envlab's own code",
        averages=True,
    ),
)


ENGINE_PACKAGES = (
    *("torch", "numpy", "mujoco", "gymnasium", "hydra-core", "omegaconf"),
    *("mujoco-warp", "warp-lang", "jax", "flax"),
)
"""Packages that envlab itself uses whose results, or exchanged data, must match on all ranks."""


def packages_alike() -> list[str]:
    """Return the packages whose versions must be the same on all ranks."""
    return [
        *ENGINE_PACKAGES,
        *(name for library in libraries().values() for name in library.packages),
    ]


def libraries() -> dict[str, Library]:
    """Return all libraries by name: the core's, then those of installed packages."""
    found = {library.name: library for library in CORE}
    for library in load_plugins(ENTRY_POINT_GROUP, Library).found.values():
        found.setdefault(library.name, library)
    return found


def trusted_modules() -> frozenset[str]:
    """Return the packages of libraries whose code a file may name; not envlab's own."""
    parts = [
        (library.cfg, library.build, library.player, library.flags or "", library.prepare or "")
        for library in libraries().values()
    ]
    return frozenset(
        without_guests(packages_of(entry_point for part in parts for entry_point in part))
    )


def get_library(name: str) -> Library:
    """Return a library by its name.

    Raises:
        ConfigurationError: If there is none, with the nearest names.
    """
    known = libraries()
    if name not in known:
        raise ConfigurationError(
            f"There is no library {name!r}; there are "
            f"{', '.join(known)}.{did_you_mean(name, known)}"
        )
    return known[name]


def default_library(task: Task) -> str:
    """Return a task's default library: the first for which it has a configuration."""
    known = libraries()
    return next((name for name in task.libraries if name in known), "rsl_rl")
