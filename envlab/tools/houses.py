"""``envlab nav houses``: what the houses of a split hold, and pictures of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from envlab.distributed.log import configure_logging
from envlab.errors import ConfigurationError, RunDirectoryError, did_you_mean
from envlab.nav import missing_extra
from envlab.rl.command.arguments import ArgumentParser

COMMANDS = ("houses",)


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab nav COMMAND``, and return 0.

    Raises:
        ConfigurationError: For an unknown command, split or number.
        SimulationError: If Warp or Pillow is not installed.
    """
    if not arguments or arguments[0] not in COMMANDS:
        given = f"{arguments[0]!r}" if arguments else "nothing"
        hint = did_you_mean(arguments[0], COMMANDS) if arguments else ""
        raise ConfigurationError(f"envlab nav has no command {given}.{hint} Try: envlab nav houses")
    return show_houses(arguments[1:])


def show_houses(arguments: Sequence[str]) -> int:
    """Print statistics of houses, and draw them where a folder is given."""
    parser = ArgumentParser(
        prog="envlab nav houses",
        description="Print what the houses of a split hold, and draw pictures of them.",
    )
    parser.add_argument("--split", default="val", metavar="NAME", help="train, val (default), test")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first house (default 0)")
    parser.add_argument("--num", type=int, default=8, metavar="N", help="houses (default 8)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw each house there")
    flags = parser.parse_args(list(arguments))
    configure_logging()
    if flags.num < 1:
        raise ConfigurationError(f"--num is {flags.num}, but must be at least 1.")
    try:
        from envlab.nav.house_cache import HouseCache
        from envlab.nav.pictures import beside, draw_map, draw_views
        from envlab.nav.statistics import describe
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    cache = HouseCache(None)
    numbers = range(flags.first, flags.first + flags.num)
    houses = [cache.load(flags.split, number) for number in numbers]
    print(tabulate(describe(houses), headers=(f"{flags.num} houses of {flags.split}", *_COLUMNS)))
    if flags.pictures is not None:
        try:
            flags.pictures.mkdir(parents=True, exist_ok=True)
            for number, house in zip(numbers, houses, strict=True):
                path = flags.pictures / f"{flags.split}_{number}.png"
                beside(draw_map(house), draw_views(house)).save(path)
                print(path)
        except OSError as error:
            raise RunDirectoryError(
                f"Pictures cannot be written to {flags.pictures}: {error.strerror or error}. "
                "Give --pictures another folder."
            ) from error
    return 0


_COLUMNS = ("mean", "least", "largest")
