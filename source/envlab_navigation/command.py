"""``envlab nav``: statistics of houses, and results of an expert or of chance."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from envlab.arguments import positive
from envlab.config import compose, merge
from envlab.errors import ConfigurationError, RunDirectoryError, did_you_mean
from envlab.registry import get_task, load_env_cfg
from envlab.training.arguments import TrainingParser
from envlab_navigation import missing_extra

if TYPE_CHECKING:  # torch is loaded once the words have been read
    import torch


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab nav COMMAND``, and return 0.

    Raises:
        ConfigurationError: For an unknown command, split or number.
        SimulationError: If Warp or Pillow is not installed.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"usage: envlab nav {{{','.join(COMMANDS)}}} ...\n\nEach command has --help.")
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        given = f"{arguments[0]!r}" if arguments else "nothing"
        hint = did_you_mean(arguments[0], COMMANDS) if arguments else ""
        raise ConfigurationError(
            f"envlab nav has no command {given}.{hint} There are {' and '.join(COMMANDS)}."
        )
    return COMMANDS[arguments[0]](arguments[1:])


def show_houses(arguments: Sequence[str]) -> int:
    """Print statistics of houses, and draw them if a folder is given."""
    parser = TrainingParser(
        prog="envlab nav houses",
        description="Print the contents of a split's houses, and draw pictures of them.",
    )
    parser.add_argument("--split", default="val", metavar="NAME", help="train, val (default), test")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first house (default 0)")
    parser.add_argument("--num", type=positive, default=8, metavar="N", help="houses (default 8)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw each house there")
    parser.add_argument(
        "--file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="check and show these house files, or folders of them, in place of a split",
    )
    flags = parser.parse_args(list(arguments))
    try:
        from envlab_navigation.house_cache import HouseCache
        from envlab_navigation.pictures import beside, draw_map, draw_views, trimmed
        from envlab_navigation.statistics import describe
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    cache = HouseCache(None, [str(path) for path in flags.file or []])
    numbers = range(flags.first, flags.first + flags.num)
    names = [f"{flags.split}_{number}" for number in numbers]
    if cache.files is not None:
        numbers, names = range(len(cache.files)), cache.files.names
        _print_notes(cache.files.paths)
    houses = [cache.load(flags.split, number) for number in numbers]
    source = flags.split if cache.files is None else ", ".join(map(str, flags.file))
    heads = (f"{len(houses)} {'house' if len(houses) == 1 else 'houses'} of {source}", "mean")
    print(tabulate(describe(houses), headers=(*heads, "least", "largest")))
    if flags.pictures is None:
        return 0
    with _writing(flags.pictures):
        for name, house in zip(names, houses, strict=True):
            path = flags.pictures / f"{name}.png"
            views = draw_views(house)
            plan = trimmed(draw_map(house), house)
            beside(plan, views, height=views.height).save(path)
            print(path)
    return 0


def _print_notes(paths: Sequence[Path]) -> None:
    """Print contents of files that their houses lack, and unreachable things."""
    from envlab_navigation.house_files import check_layout, read_layout

    for path in paths:
        layout = read_layout(path)
        house = check_layout(layout)
        notes = list(layout.notes)
        if rooms := layout.unreachable(house):
            notes.append(f"nobody can get into {', '.join(rooms)}")
        if classes := layout.unseen(house):
            notes.append(f"nobody can get near {', '.join(classes)}")
        print(f"{path}: {'; '.join(notes) or 'nothing is left out'}.")


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make a folder for pictures, and raise one sentence if they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise RunDirectoryError(
            f"Pictures cannot be written to {folder}: {error.strerror or error}. "
            "Give --pictures another folder."
        ) from error


def evaluate(arguments: Sequence[str]) -> int:
    """Print the measures of an expert or of random actions over whole episodes."""
    parser = TrainingParser(
        prog="envlab nav evaluate",
        description="Measure the success of an expert, which knows all distances, or of chance.",
    )
    parser.add_argument("--task", required=True, metavar="ID", help="task id (Nav-...)")
    parser.add_argument("--policy", choices=("expert", "random"), default="expert")
    parser.add_argument(
        "--num_episodes", type=positive, default=200, metavar="N", help="default 200"
    )
    parser.add_argument("--num_envs", type=positive, default=50, metavar="N", help="default 50")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--device", metavar="DEVICE", help="cuda if there is one, else cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the measures to it")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw each episode there")
    flags, overrides = parser.parse_with_overrides(arguments)
    task = get_task(flags.task)
    if task.kind != "NavEnv":
        raise ConfigurationError(
            f"{task.id} is not a navigation task. 'envlab list --keyword Nav-' shows these."
        )
    from envlab.distributed.context import DistributedContext
    from envlab.distributed.program import configure_logging
    from envlab.training.evaluation import evaluate as run_episodes
    from envlab.training.evaluation import write_json
    from envlab_navigation.metrics import summarise, table

    configure_logging()
    num_envs = min(flags.num_envs, flags.num_episodes)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    if getattr(cfg, "backend", None) == "ai2thor" and (flags.policy == "expert" or flags.pictures):
        raise ConfigurationError(
            "env.backend is 'ai2thor', whose houses neither the expert nor --pictures supports. "
            "Give --policy=random without --pictures, or leave the backend out."
        )
    cfg = merge(cfg, {"scene": {"num_envs": num_envs}}, "env")
    env = task.make(cfg, context=DistributedContext.single(flags.device), seed=flags.seed)
    act = _policy(env, flags.policy)
    episodes_per_env = math.ceil(flags.num_episodes / num_envs)
    after_step: list[Callable[[], None]] = []
    if flags.pictures is not None:
        from envlab_navigation.way_recorder import WayRecorder

        ways, choose = WayRecorder(env, flags.pictures, episodes_per_env), act
        after_step.append(ways.after_step)

        def act() -> torch.Tensor:
            ways.before_step()
            return choose()

    with _writing(flags.pictures) if flags.pictures else contextlib.nullcontext():
        evaluation = run_episodes(env, lambda obs: act(), episodes_per_env, after_step)
    env.close()
    print(f"{task.id}, {flags.policy}, {evaluation.place}:")
    print(table(summarise(evaluation.episodes)))
    if flags.json is not None:
        write_json(flags.json, {"task": task.id, "policy": flags.policy} | evaluation.as_dict())
    return 0


def _policy(env: Any, name: str) -> Callable[[], torch.Tensor]:
    """Return a function of the next actions, ``(num_envs, 1)``."""
    if name == "expert":
        from envlab_navigation.expert import Expert

        return Expert(env).act
    from envlab.tools.agents import draw_actions

    return lambda: draw_actions(env.single_action_space, env.random.stream("random_agent"))


COMMANDS = {"houses": show_houses, "evaluate": evaluate}
