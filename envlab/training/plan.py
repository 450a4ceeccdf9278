"""The plan of a run: from the words of a command to a frozen :class:`RunPlan`.

1. :func:`envlab.training.arguments.read_words` splits words into flags and overrides.
2. :func:`plan_run` looks up the task, and composes its configurations.
3. :func:`envlab.training.start.decide_start` decides, with all ranks, where the run starts.
4. :func:`settle` replaces, with all ranks, what depends on them: the seed, the number of
   environments, batch sizes and learning rates.

``train``, ``play``, ``validate``, ``export``, ``config``, ``--dry_run``, sweeps, populations,
restarts and requeued jobs call these functions. Each returns a new plan, and none changes one.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from envlab.agent_cfg import set_value, value_at
from envlab.config import (
    Override,
    Trust,
    check_ranges,
    compose,
    leaves,
    load_yaml,
    merge,
    overrides_of,
    read_yaml,
    sets_value,
    texts_of,
)
from envlab.config.files import NO_TRUST
from envlab.distributed.audit import name_ranks
from envlab.errors import ConfigurationError
from envlab.libraries import Library
from envlab.registry import Task, get_task, load_agent_values, load_entry_point, load_env_cfg
from envlab.run.manifest import read_manifest
from envlab.run.pretrained import SELECTOR
from envlab.training.continuation import begun_on, check_total, share_of_total, total_of
from envlab.training.flags import Flags, guest_flags, guests_of, is_given
from envlab.training.inputs import check_exclusions, trust_of
from envlab.training.scaling import Scaling, scale, settle_batches
from envlab.training.sweep import folder_label

if TYPE_CHECKING:  # which loads torch
    from envlab.distributed.context import DistributedContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a run starts, as :func:`envlab.training.start.decide_start` decides."""

    checkpoint: Path | None = None
    """The checkpoint that it resumes."""
    saved: Mapping[str, Any] | None = None
    """Contents of that checkpoint."""
    policy: Mapping[str, Any] | None = None
    """Content and ``path`` of the policy that a run without a checkpoint begins with, such as a
    teacher's."""
    directory: Path | None = None
    """The run directory to continue in."""
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Settings that differ from those of the resumed run: that run's value, and the plan's."""
    other_code: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Code and packages that differ from those of that run, as in ``changed``."""

    @property
    def kind(self) -> Literal["fresh", "policy", "resume", "continue"]:
        """Which of the four kinds of start this is.

        ``fresh``: from the first iteration. ``policy``: the same, with the networks of another run.
        ``resume``: from a checkpoint, in a new run directory (``--resume``). ``continue``: in the
        run directory that an earlier start of the same launch made.
        """
        if self.directory is not None:
            return "continue"
        if self.saved is not None:
            return "resume"
        return "fresh" if self.policy is None else "policy"


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """All that decides a run."""

    task: Task
    library: Library
    env_cfg: Any
    agent_cfg: Any
    """As requested, also on several processes; see :class:`envlab.agent_cfg.AgentCfg`."""
    guest_cfgs: Mapping[str, Any] = field(default_factory=dict)
    """What guests configure besides, by its root, such as ``population``."""
    num_members: int = 0
    """Number of the library's learners that a guest trains together, each on one process; 0: one
    learner."""
    flags: Flags
    overrides: Sequence[Override] = ()
    base: Path | None = None
    """The run or file whose configuration was taken instead of the task's defaults."""
    is_num_envs_given: bool = False
    """Whether ``env.scene.num_envs`` was given, even as the task's default."""
    overridden_by_flag: Mapping[str, Any] = field(default_factory=dict)
    """Values that overrides changed and a flag then set, by the flag's name."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values that a sweep varies, by override key."""
    start: Start = field(default_factory=Start)
    destination: Path | None = None
    """The run directory to make; None: one named by the time."""
    launch: Mapping[str, Any] = field(default_factory=dict)
    """The manifest's entry on the launch, by which its restarts find the run again."""
    scaling: Scaling | None = None
    """The effect of the number of processes on the agent's configuration, once settled."""

    @property
    def run_name(self) -> str:
        """The name of the run's folder after the time: its own name, and the swept values."""
        own = f"agent.{self.agent_cfg.FLAGS['run_name']}"  # already distinguishes the runs
        swept = {key: value for key, value in self.swept.items() if key != own}
        return "_".join(filter(None, (self.agent_cfg.run_name, folder_label(swept))))

    @property
    def configs(self) -> dict[str, Any]:
        """The configurations by their root."""
        return {"env": self.env_cfg, "agent": self.agent_cfg, **self.guest_cfgs}

    @property
    def deals_environments(self) -> bool:
        """Whether it can keep its environments when it resumes on another number of processes."""
        return self.library.deals_environments and not self.num_members

    @property
    def for_learner(self) -> RunPlan:
        """The plan with the agent's configuration as this number of processes trains with it."""
        assert self.scaling is not None, "the plan is not settled"
        return dataclasses.replace(self, agent_cfg=self.scaling.agent_cfg)

    def learning_context(self, context: DistributedContext) -> DistributedContext:
        """Return the context in which a learner learns: alone, if ranks meet only to average."""
        return context.alone() if self.flags.grad_sync == "local" else context

    def in_env(self, num_envs: int, seed: int | None, **changes: Any) -> RunPlan:
        """Return the plan with another number of environments, seed, or other settings of them."""
        values = {"scene": {"num_envs": num_envs}, "seed": seed} | changes
        env_cfg = merge(without_recorders(self.env_cfg), values, "env")
        return dataclasses.replace(self, env_cfg=env_cfg)


def without_recorders(env_cfg: Any) -> Any:
    """Return a configuration of environments that record no episodes; see ``env.recorders``."""
    if getattr(env_cfg, "recorders", None) is None:
        return env_cfg
    return dataclasses.replace(env_cfg, recorders=None)


# ---- From words ----------------------------------------------------------------------------------


def plan_run(
    flags: Flags,
    overrides: Sequence[Override],
    library: Library,
    base: Path | None = None,
    *,
    is_resumed: bool = False,
) -> RunPlan:
    """Return the plan of one run, composed from what the user gave.

    Args:
        flags: Parsed flags; they win over overrides.
        overrides: Hydra overrides, parsed.
        library: The library to train with.
        base: A run directory whose ``params/`` to start from, or a file of ``envlab config``,
            instead of the task's defaults.
        is_resumed: Whether the run is resumed, in which case its batches also stay as they are.

    Raises:
        EnvlabError: For anything wrong in flags, overrides or files.
    """
    task, agent_cfg = get_task(flags.task), library.default_cfg(flags)
    guests = guests_of(library)
    env_cfg = load_env_cfg(task)
    guest_cfgs = {root: load_entry_point(one.cfg)() for root, one in guests.items() if one.cfg}
    task = task.suited(lambda: compose({"env": env_cfg}, overrides_of("env", overrides))["env"])
    if base is None:
        agent_cfg = _lay_task_values(task, library.name, flags.agent, agent_cfg)
    else:
        trust = trust_of(flags.trust, texts_of(overrides))
        given = _Given.read(base, task, library.name)
        # A shipped policy is judged in the task as it is.
        if flags.command == "train" or flags.as_trained or flags.checkpoint != SELECTOR:
            env_cfg = given.env_cfg(env_cfg, task, trust)
        agent_cfg = given.agent_cfg(agent_cfg, trust)
        guest_cfgs = given.guest_cfgs(guest_cfgs, library)
    words = _adding(overrides, [f"{guest.free}." for guest in guests.values() if guest.free])
    composed = compose({"env": env_cfg, "agent": agent_cfg, **guest_cfgs}, words)
    if base is not None and composed["agent"].references():
        key = _agent_key(library.name, flags.agent, composed["agent"])
        _check_references(composed["agent"], trust, load_agent_values(task, key) or {})
    before = {
        name: value_at(composed["agent"], key)
        for name, key in agent_cfg.FLAGS.items()
        if getattr(flags, name) is not None
        and value_at(composed["agent"], key) != value_at(agent_cfg, key)
    }
    env_cfg, new = composed["env"], _with_flags(composed["agent"], flags)
    if not is_resumed:
        new = settle_batches(new, flags)
    has_another = new.seed != agent_cfg.seed == env_cfg.seed  # a run's is its agent's, settled
    if has_another and not sets_value(overrides, "env.seed"):
        env_cfg = merge(env_cfg, {"seed": None}, "env")
    plan = RunPlan(
        task=task,
        library=library,
        env_cfg=env_cfg,
        agent_cfg=new,
        guest_cfgs={root: composed[root] for root in guest_cfgs},
        flags=flags,
        overrides=tuple(overrides),
        base=base,
        is_num_envs_given=base is not None or sets_value(overrides, "env.scene.num_envs"),
        overridden_by_flag=before,
    )
    for guest in guests.values():
        if guest.plan and (guest.cfg or is_given(flags, load_entry_point(guest.flags))):
            plan = load_entry_point(guest.plan)(plan)
    _check(plan)
    return plan


def _adding(overrides: Sequence[Override], starts: Sequence[str]) -> list[Override]:
    """Return overrides of which those below certain paths need no ``+`` to add a key."""
    return [
        dataclasses.replace(override, type=type(override.type).FORCE_ADD)
        if str(override.input_line).startswith(tuple(starts))
        else override
        for override in overrides
    ]


def _lay_task_values(task: Task, library: str, key: str | None, agent_cfg: Any) -> Any:
    """Return the library's defaults, overridden by the task's own values."""
    name = _agent_key(library, key, agent_cfg)
    values = load_agent_values(task, name)
    if values is None and key is not None:
        raise ConfigurationError(
            f"The task {task.id} has no agent configuration {key!r}; it has "
            f"{', '.join(task.libraries) or 'none'}."
        )
    if values is None:
        logger.info("The task %s has no %s configuration; using the defaults.", task.id, name)
    agent_cfg = agent_cfg.suited(values or {}).with_task_values(values or {})
    if values is not None and not task.shares_agents:
        return agent_cfg
    return set_value(agent_cfg, agent_cfg.FLAGS["experiment_name"], task.experiment_name)


@dataclass(frozen=True)
class _Given:
    """The configuration of a run, or of a file of ``envlab config``."""

    path: Path
    facts: Mapping[str, Any]
    """The run's manifest, or the file's content."""

    @classmethod
    def read(cls, path: Path, task: Task, library: str) -> _Given:
        """Read it; refuse one of another task or library."""
        given = cls(path, read_manifest(path) if path.is_dir() else load_yaml(path))
        trained, by = given.facts.get("task"), given.facts.get("library", library)
        if trained not in (task.id, task.trained_id):
            raise ConfigurationError(
                f"{'The run ' if given.of_run else ''}{path} is of the task {trained!r}, but "
                f"{task.id!r} was requested. Name one of this task."
            )
        if by != library:
            raise ConfigurationError(
                f"{path} is a configuration for {by}, but {library} was requested. Name {by}."
            )
        return given

    @property
    def of_run(self) -> bool:
        return self.path.is_dir()

    def env_cfg(self, default: Any, task: Task, trust: Trust) -> Any:
        if self.facts.get("task") != task.id:  # it plays in another one than it was trained in
            return default
        # A file does not say where to write episodes.
        cfg = without_recorders(self._laid(default, "env", trust))
        for module in task.modules_of(cfg):
            trust.admit(module, module)
        return cfg

    def agent_cfg(self, default: Any, trust: Trust) -> Any:
        values = load_yaml(self._file("agent")) if self.of_run else self.facts.get("agent")
        default = default.suited(values if isinstance(values, Mapping) else {})
        return self._laid(default, "agent", trust)

    def guest_cfgs(self, defaults: Mapping[str, Any], library: Library) -> dict[str, Any]:
        found = dict(defaults)
        for root in guest_flags():
            if not (self._file(root).is_file() if self.of_run else root in self.facts):
                continue
            if root not in defaults:
                raise ConfigurationError(
                    f"{self.path} has a {root}, but {library.name} trains none. Take it out."
                )
            found[root] = self._laid(defaults[root], root)
        return found

    def _file(self, root: str) -> Path:
        return self.path / "params" / f"{root}.yaml" if self.of_run else self.path

    def _laid(self, default: Any, root: str, trust: Trust = NO_TRUST) -> Any:
        return read_yaml(self._file(root), default, root=root, part=not self.of_run, trust=trust)


def _agent_key(library: str, key: str | None, agent_cfg: Any) -> str:
    """Return the key under which a task registers the agent's configuration."""
    return str(key or getattr(agent_cfg, "registry_key", library)).removesuffix("_cfg_entry_point")


def _with_flags(agent_cfg: Any, flags: Flags) -> Any:
    """Return an agent's configuration with the flags that set a value of it."""
    for name, key in agent_cfg.FLAGS.items():
        if getattr(flags, name) is not None:
            agent_cfg = set_value(agent_cfg, key, getattr(flags, name))
    return agent_cfg


# ---- Checks of what is composed ------------------------------------------------------------------


def _check(plan: RunPlan) -> None:
    """Refuse values that no run can have, and settings that exclude each other."""
    flags, agent_cfg = plan.flags, plan.agent_cfg
    for name, first, more in (
        ("experiment_name", r"\w", ", and begin with a letter or digit"),
        ("run_name", "", ""),
    ):
        if not re.fullmatch(rf"{first}[\w.=,+-]*", getattr(agent_cfg, name)):
            raise ConfigurationError(
                f"agent.{agent_cfg.FLAGS[name]} is {getattr(agent_cfg, name)!r}, but names a "
                f"folder: use letters, digits and _ . - = , + only{more}."
            )
    check_ranges({"agent": agent_cfg, **plan.configs})
    if flags.command == "train":
        check_exclusions(flags, plan.configs, plan.overrides, plan.base)


def _check_references(agent_cfg: Any, trust: Trust, task_values: Mapping[str, Any]) -> None:
    """Refuse a library's imports, unless they are trusted, or in the task's own file.

    Raises:
        ConfigurationError: Naming the path and the text.
    """
    known = {text for _, text in leaves(task_values, "")} | trust.named
    for path, text in agent_cfg.references().items():
        if text in known:
            continue
        try:
            found = trust.resolve(text if ":" in text else ":".join(text.rpartition(".")[::2]))
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None
        if not agent_cfg.takes(path, found):
            raise ConfigurationError(
                f"{path}: {text!r} comes from a file and names no class or function that the "
                "library accepts here. Correct it, or write it on the command line as an override."
            )


# ---- With the ranks ------------------------------------------------------------------------------


def settle(plan: RunPlan, context: DistributedContext) -> RunPlan:
    """Return the plan with what depends on the ranks. Every rank must call this.

    Raises:
        ConfigurationError: If the number of environments makes no sense, or differs, or the number
            of processes divides no batch, or ranks are to be averaged that cannot be.
    """
    _check_averages(plan, context)
    seed = agree_on_seed(plan.agent_cfg.seed, context)
    num_envs = choose_num_envs(plan, context)
    everyone = context.gather(num_envs)
    if len(set(everyone)) > 1:  # a number may suit the cores of one node and not those of another
        raise ConfigurationError(
            f"The number of environments per process would be {name_ranks(everyone)}, but must be "
            "the same. Give it by --num_envs."
        )
    agent_cfg = set_value(plan.agent_cfg, plan.agent_cfg.FLAGS["seed"], seed)
    env_seed = seed if plan.env_cfg.seed is None else plan.env_cfg.seed
    return dataclasses.replace(
        plan.in_env(num_envs, env_seed),
        agent_cfg=agent_cfg,
        scaling=scale(agent_cfg, context.world_size, _scaled_for(plan, context.world_size)),
    )


def _check_averages(plan: RunPlan, context: DistributedContext) -> None:
    """Refuse ``--grad_sync local`` for one process, or with a library that cannot average.

    Raises:
        ConfigurationError: Naming the reason.
    """
    if plan.flags.grad_sync != "local":
        return
    cfg = plan.agent_cfg
    if not plan.library.averages or getattr(cfg, "ml_framework", "torch") != "torch":
        raise ConfigurationError(
            f"--grad_sync is local, but learners of {plan.library.name} cannot be averaged here. "
            "Leave it out, or train with rsl_rl, rl_games, skrl on PyTorch, or fast_sac."
        )
    if not context.is_distributed:
        raise ConfigurationError(
            "--grad_sync is local, but there is only one process. Leave it out, or start several "
            "processes, such as by --nproc=2."
        )


def agree_on_seed(seed: int, context: DistributedContext) -> int:
    """Return rank 0's seed on every rank; -1 draws one.

    Raises:
        ConfigurationError: If the seed is out of range.
    """
    if not -1 <= seed < 2**63:
        raise ConfigurationError(
            f"The seed is {seed}, but must be from 0 to 2^63 - 1, or -1 to draw one."
        )
    return context.broadcast(secrets.randbits(31) if seed == -1 else seed)


def _scaled_for(plan: RunPlan, world_size: int) -> int:
    """Return the number of processes that batch sizes and learning rates are for.

    A resumed run keeps its environments, and so the samples of an update.
    """
    saved = plan.start.saved
    if saved is None or not plan.deals_environments:
        return world_size
    return begun_on(saved)


def choose_num_envs(plan: RunPlan, context: DistributedContext) -> int:
    """Return the number of environments of this process.

    A run that resumes from a checkpoint keeps its total. Otherwise ``--num_envs`` wins, then
    ``--global_num_envs``, then ``env.scene.num_envs`` if an override or a run gave it. Without
    these it is the task's default on a GPU, and on a CPU a number that suits the machine and fills
    whole minibatches.

    Raises:
        ConfigurationError: If the total cannot be divided, or is not that of the checkpoint.
    """
    flags = plan.flags
    total = flags.global_num_envs
    if plan.start.saved is not None and plan.deals_environments:
        return _kept_num_envs(plan, plan.start.saved, context.world_size)
    if flags.num_envs is not None:
        return flags.num_envs
    if total is not None:
        if total % context.world_size:
            raise ConfigurationError(
                f"--global_num_envs is {total}, which {context.world_size} processes cannot share "
                "equally. Use a multiple, such as "
                f"{-(-total // context.world_size) * context.world_size}."
            )
        return total // context.world_size
    default: int = plan.env_cfg.scene.num_envs
    if plan.is_num_envs_given or context.device.type != "cpu":
        return default
    most = plan.agent_cfg.ENVS_PER_CORE * context.num_threads
    step = plan.agent_cfg.num_envs_step
    suited = min(default, max(step, most - most % step))
    if suited < default:
        logger.info(
            "Using %d environments per process, which suits its CPU threads (%d). The task's "
            "default is %d; --num_envs sets it.",
            suited,
            context.num_threads,
            default,
        )
    return suited


def _kept_num_envs(plan: RunPlan, saved: Mapping[str, Any], world_size: int) -> int:
    """Return this process's share of a checkpoint's environments; refuse another total."""
    flags, given = plan.flags, {}
    if flags.num_envs is not None:
        given["--num_envs"] = flags.num_envs
    elif sets_value(plan.overrides, "env.scene.num_envs"):
        given["env.scene.num_envs"] = plan.env_cfg.scene.num_envs
    check_total(saved, world_size, given)
    if flags.global_num_envs not in (None, total_of(saved)):
        raise ConfigurationError(
            f"--global_num_envs is {flags.global_num_envs}, but the run has {total_of(saved)} "
            "environments in all, which a resume keeps. Leave it out."
        )
    return share_of_total(saved, world_size)
