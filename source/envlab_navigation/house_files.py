"""House files: search, reading within limits, checks, and construction of houses."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from envlab.config import load_yaml
from envlab.errors import ConfigurationError
from envlab.foreign import parse_json, read_text
from envlab_navigation.furniture import TARGETS
from envlab_navigation.house import House, Size
from envlab_navigation.house_file import parse_house
from envlab_navigation.layout import Layout
from envlab_navigation.procthor import is_procthor, parse_procthor

logger = logging.getLogger(f"envlab.{__name__}")

ENDINGS = (".json", ".yaml", ".yml")


class HouseFiles:
    """The houses of some files, which all have arrays of the same size.

    Attributes:
        paths: The files, those of a folder in the order of their names.
        names: Names of the houses: the files' names without their endings, numbered if several are
            alike.
        size: Size of the houses' arrays.
        classes: Target classes that agents can get near in one of the houses.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Read and check all files, so that none of them ends a run halfway.

        Args:
            names: Files, or folders of files.

        Raises:
            ConfigurationError: If there is none, or one makes no house.
        """
        self.paths = [path for name in names for path in _found(Path(name).expanduser())]
        stems = [path.stem for path in self.paths]
        self.names = [
            stem if stems.count(stem) == 1 else f"{stem}_{number}"
            for number, stem in enumerate(stems)
        ]
        self._digests = [_digest(path) for path in self.paths]
        sizes, noted = [], []
        self.classes: set[str] = set()
        for layout in map(read_layout, self.paths):
            sizes.append(layout.size())
            found = check_layout(layout).zones[: len(TARGETS)].any(axis=(1, 2))
            self.classes.update(TARGETS[number] for number in np.flatnonzero(found))
            if layout.notes:
                noted.append(layout)
        grids, *counts = zip(*sizes, strict=True)
        height, width = map(max, zip(*grids, strict=True))
        self.size = Size((height, width), *map(max, counts))
        if noted:
            logger.warning(
                "%d of %d house files hold what houses here cannot have (%s: %s). "
                "'envlab nav houses --file FILE' lists them for each.",
                *(len(noted), len(self.paths), noted[0].path, "; ".join(noted[0].notes)),
            )

    def __len__(self) -> int:
        return len(self.paths)

    def key(self, number: int) -> str:
        """Return a digest of a file's house, as the name of a cache entry."""
        height, width = self.size.grid
        counts = self.size.num_walls, self.size.num_primitives, self.size.num_rooms
        size = "_".join(map(str, (height, width, *counts)))
        return f"{self._digests[number]}_{size}"

    def make(self, number: int) -> House:
        """Return the house of a file.

        Raises:
            ConfigurationError: If the file has changed since it was checked.
        """
        path = self.paths[number]
        if _digest(path) != self._digests[number]:
            raise ConfigurationError(
                f"The house file {path} has changed since the run began. Start again, and do not "
                "change it until the end."
            )
        return read_layout(path).build(_generator(path), self.size)


def read_layout(path: Path) -> Layout:
    """Return the layout of a file, in the format of envlab or of ProcTHOR.

    Raises:
        ConfigurationError: If it cannot be read, or makes no house.
    """
    if path.suffix != ".json":
        return parse_house(load_yaml(path), str(path))
    try:
        values = parse_json(read_text(path))
    except OSError as error:
        raise _unread(path, error) from None
    except ValueError as error:
        raise ConfigurationError(f"{path} is not valid JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path} holds {type(values).__name__}, but a house is a mapping.")
    parse = parse_procthor if is_procthor(values) else parse_house
    return parse(values, str(path))


def check_layout(layout: Layout) -> House:
    """Return the house of a layout in its own size; users' own files must be without flaws.

    Raises:
        ConfigurationError: If a room or a start of episodes is not reachable.
    """
    house = layout.build(np.random.default_rng(0), layout.size())
    walled_in = layout.unreachable(house)
    if walled_in and not layout.is_imported:
        raise ConfigurationError(
            f"{layout.path}: the room {walled_in[0]!r} is walled in: no path leads to it from the "
            "largest part of the house. Give it a door, or clear the way."
        )
    return house


def _found(path: Path) -> list[Path]:
    if not path.is_dir():
        if path.suffix not in ENDINGS:
            raise ConfigurationError(
                f"{path} is not a house file: its name must end in one of {', '.join(ENDINGS)}."
            )
        return [path]
    try:
        found = sorted(one for one in path.iterdir() if one.suffix in ENDINGS)
    except OSError as error:
        raise _unread(path, error) from None
    if not found:
        raise ConfigurationError(
            f"The folder {path} holds no house file, whose name ends in {', '.join(ENDINGS)}."
        )
    return found


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_text(path).encode()).hexdigest()
    except (OSError, UnicodeDecodeError) as error:
        raise _unread(path, error) from None


def _generator(path: Path) -> np.random.Generator:
    """Return the generator of values that a file leaves open: the same for the same text."""
    key = np.frombuffer(bytes.fromhex(_digest(path))[:16], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _unread(path: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"The house file {path} cannot be read: {error}. Give a file in YAML or JSON."
    )
