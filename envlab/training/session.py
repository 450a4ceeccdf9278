"""From a command line to configurations: the part of a script before it calls its library."""

from __future__ import annotations

import dataclasses
import logging
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlab.agent_cfg import set_value, value_at
from envlab.config import (
    Override,
    Trust,
    check_ranges,
    compose,
    leaves,
    load_yaml,
    overrides_of,
    read_yaml,
    sets_value,
    texts_of,
)
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError, ConfigurationError
from envlab.host.tasks import GymTask
from envlab.libraries import Library
from envlab.registry import Task, get_task, load_agent_values, load_env_cfg
from envlab.run.checkpoints import Accept, Checkpoints, check_header
from envlab.run.find import find_run, flags_of
from envlab.run.manifest import read_manifest
from envlab.run.pretrained import SELECTOR, find_policy
from envlab.training.flag_checks import checkpoint_file, run_and_name
from envlab.training.flags import Flags
from envlab.training.population.cfg import PopulationCfg, spans_of, with_ranges, with_size
from envlab.training.sweep import folder_label
from envlab.training.trust import trust_of

logger = logging.getLogger(__name__)

_ROOTS = ("env", "agent")


@dataclass(kw_only=True)
class Session:
    """A task with its composed configurations, for a script to run."""

    library: Library
    task: Task
    env_cfg: Any
    agent_cfg: Any
    """See :class:`envlab.agent_cfg.AgentCfg`."""
    population_cfg: PopulationCfg = field(default_factory=PopulationCfg)
    """How many members are trained together, and how they differ."""
    overrides: list[Override]
    flags: Flags
    sets_num_envs: bool = False
    """Whether overrides set ``env.scene.num_envs``, even to the task's default."""
    swept: dict[str, str] = field(default_factory=dict)
    """The values that a sweep varies, by override key."""
    undone: dict[str, Any] = field(default_factory=dict)
    """Values that overrides changed and a flag then set, by the flag's name."""
    params: Path | None = None
    """The run or file that this configuration started from, instead of the task's defaults."""
    checkpoint: Path | None = None
    """The checkpoint to resume."""
    resumed: dict[str, Any] | None = None
    """Contents of that checkpoint."""
    changed: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Settings that differ from those of the run that it continues: that run's value, and ours."""
    other_code: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Code and packages that differ from those of the run that it continues, as in ``changed``."""
    given_policy: dict[str, Any] | None = None
    """Content and ``path`` of the checkpoint that a new run begins with, such as a teacher's."""
    directory: Path | None = None
    """The run directory to continue in, after a restart of the same launch; None: a new one."""
    destination: Path | None = None
    """The run directory to make; None: one named by the time."""
    launch: dict[str, Any] = field(default_factory=dict)
    """The manifest's entry on the launch, by which its restarts find the run again."""

    @property
    def run_name(self) -> str:
        """The name of the run's folder after the time: its own name, and the swept values."""
        own = f"agent.{self.agent_cfg.FLAGS['run_name']}"  # distinguishes them by itself
        swept = {key: value for key, value in self.swept.items() if key != own}
        return "_".join(filter(None, (self.agent_cfg.run_name, folder_label(swept))))


def compose_session(
    flags: Flags,
    overrides: Sequence[Override],
    library: Library,
    params: Path | None = None,
) -> Session:
    """Compose the configurations of a task for a library.

    Args:
        flags: Parsed flags; they win over overrides.
        overrides: Hydra overrides, parsed.
        library: The library to train with.
        params: A run directory whose ``params/`` to start from, or a file of ``envlab config``,
            instead of the task's defaults.

    Raises:
        EnvlabError: For anything wrong in flags, overrides or files.
    """
    task = get_task(flags.task)
    env_cfg, agent_cfg = load_env_cfg(task), library.default_cfg(flags)
    if isinstance(task, GymTask):
        task = task.suited(compose({"env": env_cfg}, overrides_of("env", overrides))["env"])
    if params is not None:
        trust = trust_of(flags.trust, texts_of(overrides))
        is_shipped = flags.command != "train" and flags.checkpoint == SELECTOR
        env_cfg, agent_cfg = _lay_given(
            *(params, task, library.name, env_cfg, agent_cfg, trust),
            # A shipped policy is judged in the task as it is.
            with_env=flags.as_trained or not is_shipped,
        )
    else:
        agent_cfg = _lay_task_values(task, library.name, flags.agent, agent_cfg)
    roots = {"env": env_cfg, "agent": agent_cfg}
    if library.has_members:
        roots["population"] = _given_population(params)
    composed = compose(roots, with_ranges(overrides))
    agent_cfg, undone = composed["agent"], {}
    if params is not None and agent_cfg.references():
        key = _agent_key(library.name, flags.agent, agent_cfg)
        _check_references(agent_cfg, trust, load_agent_values(task, key) or {})
    for name, key in agent_cfg.FLAGS.items():
        if getattr(flags, name) is not None:
            before = value_at(composed["agent"], key)
            if before != value_at(roots["agent"], key):
                undone[name] = before
            agent_cfg = set_value(agent_cfg, key, getattr(flags, name))
    for name, pattern in (("experiment_name", r"\w[\w.=,+-]*"), ("run_name", r"[\w.=,+-]*")):
        if not re.fullmatch(pattern, getattr(agent_cfg, name)):
            raise ConfigurationError(
                f"agent.{agent_cfg.FLAGS[name]} is {getattr(agent_cfg, name)!r}, but names a "
                "folder: use letters, digits and _ . - = , + only, and begin with a letter or "
                "digit."
            )
    check_ranges({"agent": agent_cfg, "env": composed["env"]})
    if agent_cfg.overlap and flags.command == "train":
        _check_overlap(agent_cfg, flags)
    population_cfg = composed.get("population") or PopulationCfg()
    if library.has_members:  # else the flag is the library's own
        population_cfg = with_size(population_cfg, flags.population_size)
        if params is not None or not flags.resume:  # else the run's is to come
            _check_population(population_cfg, agent_cfg, flags)
    return Session(
        library=library,
        task=task,
        env_cfg=composed["env"],
        agent_cfg=agent_cfg,
        population_cfg=population_cfg,
        overrides=list(overrides),
        flags=flags,
        sets_num_envs=sets_value(overrides, "env.scene.num_envs"),
        undone=undone,
        params=params,
    )


def _given_population(params: Path | None) -> PopulationCfg:
    """Return the population of a run, or of a file of ``envlab config``, if it has one."""
    if params is None:
        return PopulationCfg()
    path = params / "params" / "population.yaml" if params.is_dir() else params
    if not path.is_file():
        return PopulationCfg()
    return read_yaml(path, PopulationCfg(), root="population", part=not params.is_dir())


def _check_overlap(agent_cfg: Any, flags: Flags) -> None:
    """Refuse to collect alongside learning if that has no effect, or would be watched.

    Raises:
        ConfigurationError: If it has none, or a flag shows environments while they step.
    """
    if not agent_cfg.OVERLAPS:
        raise ConfigurationError(
            "agent.overlap=true has no effect here: only fast_sac and rsl_rl's PPO can collect "
            "while they learn. Leave it out, or train with one of them."
        )
    for name, is_given in (("video", flags.video), ("viz", flags.viz is not None)):
        if is_given:
            raise ConfigurationError(
                f"--{name} shows environments after each step, which agent.overlap=true takes in "
                "a thread of its own. Leave one of them out; checkpoints can be watched by play."
            )


def _check_population(cfg: PopulationCfg, agent_cfg: Any, flags: Flags) -> None:
    """Refuse an impossible population.

    Raises:
        ConfigurationError: If it is impossible, or a flag has no effect on it.
    """
    check_ranges({"population": cfg})
    spans_of(cfg, agent_cfg)
    if cfg.size == 0 or flags.command != "train":
        return
    if agent_cfg.overlap:
        raise ConfigurationError(
            "agent.overlap=true has no effect with --population_size: the members of a process "
            "take turns. Leave one of them out."
        )
    for name, is_given in (
        ("global_num_envs", flags.global_num_envs is not None),
        ("lr_scaling", agent_cfg.lr_scaling != "none"),
        ("grad_sync", flags.grad_sync == "library"),
        ("video", flags.video),
    ):
        if is_given:
            raise ConfigurationError(
                f"--{name} has no effect with --population_size: each member is trained by one "
                "process, in --num_envs environments of its own. Leave one of them out."
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


def choose_num_envs(session: Session, context: DistributedContext) -> int:
    """Return the number of environments of this process.

    ``--num_envs`` wins, then ``--global_num_envs``, then ``env.scene.num_envs`` if an override set
    it. Otherwise it is the task's default on a GPU, and on a CPU a number that suits the machine
    and fills whole minibatches.

    Raises:
        ConfigurationError: If the total cannot be divided.
    """
    flags = session.flags
    total = flags.global_num_envs
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
    default = session.env_cfg.scene.num_envs
    if session.sets_num_envs or session.params or context.device.type != "cpu":
        return default
    most = session.agent_cfg.ENVS_PER_CORE * context.num_threads
    step = session.agent_cfg.num_envs_step
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


def open_checkpoint(
    session: Session, accept: Accept, *, tasks: Collection[str]
) -> tuple[Path, dict[str, Any], Path]:
    """Return the checkpoint that the flags name, its contents, and its run directory.

    ``--load_run`` is a run's folder, a name or a pattern, or else the newest run with a checkpoint;
    ``--checkpoint`` is ``latest``, ``best``, ``pretrained``, a file name, or the path of a file or
    a run. Only the latest of a run falls back to an earlier one.

    Args:
        session: Names library, experiment and algorithm if no path is given.
        accept: Rejects unwanted checkpoints.
        tasks: Ids of the task, for the error if there is no run.

    Raises:
        EnvlabError: If there is none, or it cannot be read or is refused.
    """
    agent_cfg, path = session.agent_cfg, checkpoint_file(session.flags)
    if session.flags.checkpoint == SELECTOR:
        policy = find_policy(session.library.name, agent_cfg.origin, tasks)
        values = load_checkpoint(policy.checkpoint)
        accept(values, policy.checkpoint)
        return policy.checkpoint, values, policy.folder
    if path is not None:
        values = load_checkpoint(path)
        accept(values, path)
        run = path.parent.parent
        return path, values, run if (run / "run.json").is_file() else path.parent
    load_run, name = run_and_name(session.flags)
    run = find_run(
        session.library.name,
        agent_cfg.experiment_name,
        load_run,
        origin=agent_cfg.origin,
        tasks=tasks,
    )
    return *Checkpoints(run / "checkpoints").find(name, accept), run


def open_policy_of(session: Session) -> dict[str, Any]:
    """Return content and ``path`` of the checkpoint that a new run begins with.

    It may be of another task.

    Raises:
        EnvlabError: If there is none, it cannot be read, or is of another library, unless a student
            imitates it; then the files of its run are needed, and returned as ``files``.
    """
    own = session.library.name

    def accept(values: Mapping[str, Any], path: Path) -> None:
        if values.get("library") != own and not session.agent_cfg.IMITATES:
            raise CheckpointError(
                f"The checkpoint {path} is of the library {values.get('library')!r}, but "
                f"{own} can begin with policies of its own only. Choose one."
            )
        check_header(values, path)

    tasks = {session.task.id, session.task.trained_id}
    path, values, folder = open_checkpoint(session, accept, tasks=tasks)
    given = {name: values[name] for name in ("library", "task", "model")} | {"path": str(path)}
    if given["library"] != own:
        given["files"] = _files_of(folder, path)
    return given


def open_policies_of(session: Session) -> dict[str, Any]:
    """Return the policies that the agent's configuration names, as ``parts`` of one.

    Raises:
        EnvlabError: If ``--checkpoint`` is given, too, or one cannot be opened.
    """
    named, flags = session.agent_cfg.policies(), session.flags
    if flags.checkpoint is not None or flags.load_run is not None:
        raise ConfigurationError(
            f"--checkpoint and --load_run have no effect with {', '.join(named)}, which name "
            "the policies to begin with. Leave one of them out."
        )
    parts = {}
    for path, checkpoint in named.items():
        own = dataclasses.replace(flags, checkpoint=checkpoint)
        parts[path] = open_policy_of(dataclasses.replace(session, flags=own))
    told = ", ".join(f"{path}={part['path']}" for path, part in parts.items())
    return {"library": session.library.name, "path": told, "parts": parts}


def _files_of(folder: Path, path: Path) -> dict[str, str]:
    """Return the files with the setup of another library's run, by their names in it.

    Raises:
        CheckpointError: If the checkpoint at ``path`` is not in its run's folder.
    """
    names = ("run.json", "params/env.yaml", "params/agent.yaml")
    try:
        return {name: (folder / name).read_text() for name in names}
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} is of another library, and its run's {', '.join(names)} say "
            f"what network it is of, but reading them failed ({error.strerror}: {error.filename}). "
            "Name a checkpoint in its run's folder."
        ) from error


def check_origin(
    values: Mapping[str, Any], path: Path, *, session: Session, task_id: str | None = None
) -> None:
    """Refuse a checkpoint of another library, task (or ``task_id``) or algorithm, or a damaged one.

    Raises:
        CheckpointError: Naming both, or the damage.
    """
    asked = {"task": task_id or session.task.id, **session.agent_cfg.origin}
    flags = flags_of(values, asked)
    for name, wanted in {"library": session.library.name, **asked}.items():
        if values.get(name) != wanted:
            own = "use its own library's script" if name == "library" else f"give {flags}"
            raise CheckpointError(
                f"The checkpoint {path} is of the {name} {values.get(name)!r}, but {wanted!r} was "
                f"asked for. Choose a checkpoint of this {name}, or {own}."
            )
    check_header(values, path)


def _lay_given(
    given: Path,
    task: Task,
    library: str,
    env_cfg: Any,
    agent_cfg: Any,
    trust: Trust,
    *,
    with_env: bool,
) -> tuple[Any, Any]:
    """Return the configurations of a run, or of a file of ``envlab config``.

    Without ``with_env``, only the agent's is taken from there.
    """
    of_run = given.is_dir()
    facts = read_manifest(given) if of_run else load_yaml(given)
    trained, by = facts.get("task"), facts.get("library", library)
    if trained not in (task.id, task.trained_id):
        raise ConfigurationError(
            f"{'The run ' if of_run else ''}{given} is of the task {trained!r}, but {task.id!r} "
            "was asked for. Name one of this task."
        )
    if by != library:
        raise ConfigurationError(
            f"{given} is a configuration for {by}, but {library} was asked for. Name {by}."
        )
    env, agent = (given / "params" / f"{root}.yaml" if of_run else given for root in _ROOTS)
    if with_env and trained == task.id:  # else it plays in another one than it was trained in
        env_cfg = read_yaml(env, env_cfg, root="env", part=not of_run, trust=trust)
        if isinstance(task, GymTask):
            for module in task.modules_of(env_cfg):
                trust.admit(module, module)
    values = load_yaml(agent) if of_run else facts.get("agent")
    agent_cfg = agent_cfg.suited(values if isinstance(values, Mapping) else {})
    return env_cfg, read_yaml(agent, agent_cfg, root="agent", part=not of_run, trust=trust)


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
                f"{path}: {text!r} stands in a file and leads to nothing of the kind that the "
                "library makes there. Correct it, or write it on the command line as an override."
            )


def _agent_key(library: str, key: str | None, agent_cfg: Any) -> str:
    """Return the key under which a task registers the agent's configuration."""
    return str(key or getattr(agent_cfg, "registry_key", library)).removesuffix("_cfg_entry_point")


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
    if values is not None and not isinstance(task, GymTask):
        return agent_cfg
    return set_value(agent_cfg, agent_cfg.FLAGS["experiment_name"], task.experiment_name)
