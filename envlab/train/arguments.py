"""Command-line flags, the same for every library and with Isaac Lab's names.

What is not a flag is a Hydra override: ``env.scene.num_envs=64 agent.max_iterations=20``. A flag
wins over an override of the same value.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from envlab.config import Override, parse_overrides
from envlab.distributed.ranks import NUM_PROCESSES
from envlab.distributed.timeouts import DEFAULT_TIMEOUT_S
from envlab.errors import ConfigurationError, did_you_mean
from envlab.libraries import Library
from envlab.train import isaac_lab
from envlab.train.flag_checks import check_flags
from envlab.train.viewing import PORT

LAUNCHERS = (
    "--nnodes",
    "--node_rank",
    "--node-rank",
    "--rdzv",
    "--master_",
    "--master-",
)
"""How flags of torchrun begin."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and whose leftovers must be overrides."""

    def __init__(self, **kwargs: Any) -> None:
        # Without abbreviations: --num_env would otherwise be --num_envs, or an error, by accident.
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message[0].upper()}{message[1:]}. See --help.")

    def parse_with_overrides(
        self, arguments: Sequence[str]
    ) -> tuple[argparse.Namespace, list[Override]]:
        """Return the flags, and the parsed overrides in the order given.

        Whatever is wrong in the words alone is refused here, before torch takes seconds to load.

        Raises:
            ConfigurationError: For an unknown flag, with the nearest ones, for one that makes no
                sense, for two that contradict each other, and for a malformed override.
            CheckpointError: For a checkpoint to play that is not there.
        """
        flags, words = self.parse_known_args(list(arguments))
        for word in words:
            if word.startswith(LAUNCHERS):
                raise ConfigurationError(
                    f"{word.split('=')[0]} is a flag of the launcher, so it stands before the "
                    "script: python -m torch.distributed.run --nproc_per_node=2 -m envlab train "
                    "... --distributed."
                )
            if word.startswith("-"):
                known = [
                    option
                    for action in self._actions
                    for option in action.option_strings
                    if action.help is not argparse.SUPPRESS
                ]
                raise ConfigurationError(
                    "There is no flag "
                    f"{word.split('=')[0]!r}.{did_you_mean(word.split('=')[0], known)} "
                    "See --help."
                )
            if "=" not in word and not word.startswith("~"):
                raise ConfigurationError(
                    f"{word!r} is neither a flag nor an override; an override is key=value, "
                    "as in agent.max_iterations=20."
                )
        check_flags(flags)
        return flags, parse_overrides(isaac_lab.translated(words))


def whole_number(text: str) -> int:
    """Return a whole number, which may be written as 2e6.

    Raises:
        ValueError: If it is none.
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise ValueError(text) from None
        return int(number)


def train_parser(library: Library) -> ArgumentParser:
    """Return the parser of ``scripts/reinforcement_learning/<library>/train.py``."""
    parser = _parser(library, "train", f"Train a task with {library.name}.")
    parser.add_argument(
        "--num_envs",
        type=int,
        metavar="N",
        help="environments per process (default: the task's; on CPU, what suits the machine)",
    )
    parser.add_argument(
        "--global_num_envs", type=int, metavar="N", help="environments of all processes together"
    )
    parser.add_argument(
        "--lr_scaling",
        choices=("none", "linear", "sqrt"),
        help="multiply learning rates by the number of processes or its root (default: none)",
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--max_iterations", type=int, metavar="N", help="iterations in all, resumed ones included"
    )
    budget.add_argument(
        "--max_frames",
        type=whole_number,
        metavar="N",
        help="environment steps of all processes, instead of iterations",
    )
    if library.has_members:
        parser.add_argument(
            "--population_size",
            type=int,
            metavar="N",
            help="train so many members with hyper-parameters of their own, which the least fit "
            "copy from the fittest (population.*)",
        )
    _add_process_flags(parser)
    _add_continuation_flags(parser)
    _add_name_flags(parser)
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="run every combination of comma-separated override values",
    )
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="print configuration, world, run directory and memory; simulate and write nothing",
    )
    parser.add_argument(
        "--config",
        metavar="PATH",
        help="start from the configuration of this run, or of a file of 'envlab config', instead "
        "of the task's defaults",
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="judge the newest checkpoints beside the training, on the first node, as 'envlab "
        "validate' does",
    )
    _add_video_flags(parser)
    add_viewer_flags(parser)
    return parser


def _add_name_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--experiment_name", metavar="NAME", help="folder of the runs (default: the agent's)"
    )
    parser.add_argument(
        *("--run_name", "--wandb-name"), metavar="NAME", help="appended to the run's timestamp"
    )
    parser.add_argument("--logger", metavar="NAME", help="tensorboard (default), wandb or neptune")
    parser.add_argument(
        *("--log_project_name", "--wandb-project-name"),
        metavar="NAME",
        help="project at wandb or neptune (default: WANDB_PROJECT, or the experiment's name)",
    )
    parser.add_argument(
        *("--wandb_entity", "--wandb-entity"),
        metavar="NAME",
        help="user or team whose project it is (default: WANDB_ENTITY, or the account's own)",
    )
    parser.add_argument(  # Isaac Lab's script for rl_games
        "--track", action="store_const", const="wandb", dest="logger", help="--logger wandb"
    )


def _add_process_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *NUM_PROCESSES,
        type=int,
        metavar="N",
        help="start N processes on this machine, which train together",
    )
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="one of several processes of torch.distributed.run",
    )
    parser.add_argument(
        "--grad_sync",
        choices=("ddp", "library"),
        default="ddp",
        help="who averages gradients: torch's DistributedDataParallel (default) or the library",
    )
    parser.add_argument(
        "--allow_different_code",
        action="store_true",
        help="train although ranks have different files or versions of what they train with",
    )
    parser.add_argument(
        "--timeout_s",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="end the job when a rank makes no progress for this long (default: %(default)g)",
    )


def _add_continuation_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--resume", action="store_true", help="continue the newest run of the experiment"
    )
    parser.add_argument(
        "--load_run", metavar="RUN", help="with --resume: the run's folder, a name or a pattern"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="CKPT",
        help="with --resume: latest (default), best, a file name, or a path",
    )
    parser.add_argument(
        "--run_id",
        metavar="ID",
        help="name of this training; the same command later continues in its run directory",
    )
    parser.add_argument(
        "--requeue",
        action="store_true",
        help="have Slurm requeue the job when SIGUSR1 (--signal=USR1@180) ends it",
    )


def play_parser(library: Library) -> ArgumentParser:
    """Return the parser of ``scripts/reinforcement_learning/<library>/play.py``."""
    description = f"Run a policy trained with {library.name}, print its returns and export it."
    parser = _parser(library, "play", description)
    parser.add_argument("--num_envs", type=int, metavar="N", help="environments (default: 64)")
    parser.add_argument(
        "--num_episodes",
        type=int,
        metavar="N",
        help="episodes to run (default: one per environment)",
    )
    which = _add_choice_of_policy(parser)
    which.add_argument(
        "--use_last_checkpoint",
        action="store_const",
        const="latest",
        dest="checkpoint",
        help="--checkpoint latest",
    )
    parser.add_argument(
        *("--real-time", "--real_time"),
        action="store_true",
        help="wait after each step until it is over in the world, too",
    )
    parser.add_argument("--no_export", action="store_true", help="do not write exported/")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there, too")
    _add_video_flags(parser)
    add_viewer_flags(parser)
    return parser


def export_parser(library: Library) -> ArgumentParser:
    """Return the parser of ``envlab export``."""
    description = f"Write a policy trained with {library.name} as files to run it elsewhere."
    parser = _parser(library, "export", description)
    parser.add_argument(
        "--joint_order",
        choices=("envlab", "isaaclab"),
        default="envlab",
        help="whose order the joints in observations and actions have (default: envlab)",
    )
    parser.set_defaults(num_envs=None, num_episodes=None, video=False)
    _add_choice_of_policy(parser)
    return parser


def _add_choice_of_policy(parser: ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the flags that name a checkpoint; return the group that is about which of a run."""
    parser.add_argument(
        "--load_run",
        metavar="RUN",
        help="the run's folder, a name or a pattern (default: the newest)",
    )
    parser.add_argument(
        "--experiment_name", metavar="NAME", help="folder of the runs (default: the agent's)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--checkpoint",
        metavar="CKPT",
        default="latest",
        help="latest (default), best, a file name, a path, or pretrained: one that envlab brings",
    )
    return which


def agent_parser(kind: str) -> ArgumentParser:
    """Return the parser of ``random_agent.py`` and ``zero_agent.py``."""
    parser = ArgumentParser(prog=f"{kind}_agent", description=f"Step a task with {kind} actions.")
    _add_task_flags(parser)
    parser.add_argument("--num_envs", type=int, metavar="N", help="environments (default: 64)")
    parser.add_argument("--num_steps", type=int, metavar="N", help="steps (default: 300)")
    add_viewer_flags(parser)
    return parser


def _parser(library: Library, command: str, description: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"{library.name} {command}",
        description=description,
        epilog="All else is a Hydra override: env.decimation=4 env.scene.num_envs=64",
    )
    _add_task_flags(parser)
    isaac_lab.add_flags(parser)
    if library.flags is not None:
        library.load("flags")(parser)
    parser.add_argument(
        "--agent",
        metavar="KEY",
        help=f"registry key of the agent's configuration (default: {library.name}_cfg_entry_point)",
    )
    parser.add_argument(
        "--trust",
        action="append",
        metavar="MODULE",
        help="let a run's files name code of this module or package, beside that of tasks; may be "
        "given several times",
    )
    return parser


def _add_task_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task", required=True, metavar="ID", help="task id; 'envlab list' shows all"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="base seed of everything random; -1 draws one"
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="cpu, cuda or cuda:<index> (default: cuda if there is one)",
    )
    parser.add_argument(
        "--headless", action="store_true", help="accepted for Isaac Lab's commands; always true"
    )
    parser.add_argument("--verbose", action="store_true", help="log everything, on every process")


def add_viewer_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--viz`` and its port."""
    parser.add_argument(
        *("--viz", "--visualizer"),
        metavar="VIEWER",
        help="watch live: web, in a browser, or native, in MuJoCo's window",
    )
    parser.add_argument(
        "--viz_port",
        type=int,
        metavar="N",
        help=f"with --viz web: the port, or the next free one (default: {PORT})",
    )


def _add_video_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--video", action="store_true", help="record environment 0 to videos/")
    parser.add_argument(
        "--video_length", type=int, metavar="N", help="steps of a video (default: 200)"
    )
    if "train" in str(parser.prog):
        parser.add_argument(
            "--video_interval",
            type=int,
            metavar="N",
            help="steps between the starts of two videos (default: 2000)",
        )
