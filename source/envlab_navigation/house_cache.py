"""Houses on disk, so that they and their distances are computed once: 15 ms a house, read in 1 ms.

An entry's folder is named by a digest of the code that makes houses, so that new code makes new
houses. Ranks may share a folder: entries appear whole, and are the same for every writer.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from envlab.distributed.disk import describe, hint, temporary_name
from envlab_navigation import (
    floor_plan,
    furnishing,
    furniture,
    geodesic_kernels,
    geodesics,
    house,
    house_file,
    layout,
    procthor,
    procthor_sizes,
)
from envlab_navigation.geodesics import UNREACHABLE, distance_fields
from envlab_navigation.house import House, check_split, make_house
from envlab_navigation.house_files import HouseFiles

logger = logging.getLogger(f"envlab.{__name__}")

Arrays = dict[str, np.ndarray]
"""A house in memory: :class:`envlab_navigation.house.House` without ``zones``, and ``fields``,
distances to every goal, int16 ``(NUM_GOALS, *GRID)``, in mm."""

_MAKERS: tuple[ModuleType, ...] = (
    *(floor_plan, furnishing, furniture, geodesic_kernels, geodesics, house),
    *(house_file, layout, procthor, procthor_sizes),
)
_DAMAGE = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error)
"""Errors of reading a damaged entry."""


class HouseCache:
    """Makes houses, or reads earlier ones from a folder."""

    def __init__(self, folder: str | Path | None, files: Sequence[str] = ()) -> None:
        """Use a folder, which is made when the first house is written; None: none.

        Args:
            folder: The folder.
            files: House files, or folders of them, whose houses replace the splits'.

        Raises:
            ConfigurationError: If one of the files makes no house.
        """
        self.files = HouseFiles(files) if files else None
        self._folder = None if folder is None else Path(folder).expanduser() / recipe()
        self._is_writable = True

    def load(self, split: str, index: int) -> Arrays:
        """Return the house of a split or of a file.

        A damaged entry is made again, and a folder that cannot be written is not used; both are
        logged.

        Raises:
            ConfigurationError: If there is no such house.
        """
        if self.files is None:
            check_split(split)
        path = self.path(split, index)
        if path is not None and path.exists():
            try:
                return _read(path)
            except _DAMAGE as error:
                logger.warning(
                    "The house in %s is damaged (%s: %s) and is made again.",
                    *(path, type(error).__name__, error),
                )
        made = self._make(split, index)
        arrays = {name: values for name, values in made._asdict().items() if name != "zones"}
        arrays["fields"] = distance_fields(made)
        if path is not None and self._is_writable:
            self._write(path, arrays)
        return arrays

    def path(self, split: str, index: int) -> Path | None:
        """Return the path of a house's entry; None without a folder."""
        if self._folder is None:
            return None
        if self.files is not None:
            return self._folder / "files" / f"{self.files.key(index)}.npz"
        return self._folder / split / f"{index}.npz"

    def _make(self, split: str, index: int) -> House:
        return make_house(split, index) if self.files is None else self.files.make(index)

    def _write(self, path: Path, arrays: Arrays) -> None:
        temporary = temporary_name(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:  # not flushed: reading detects losses by a crash
                np.savez(file, allow_pickle=False, **_packed(arrays))
            temporary.replace(path)
        except OSError as error:
            self._is_writable = False
            logger.warning(
                "Houses cannot be kept in %s (%s), and this process makes them again each time. %s "
                "Or set env.houses.cache_dir to another folder.",
                *(path.parent, describe(path.parent, error), hint(error)),
            )
            try:
                temporary.unlink(missing_ok=True)
            except OSError:
                logger.debug("%s stays behind.", temporary)


def _packed(arrays: Arrays) -> Arrays:
    """Return a house with distances only where they exist: a third of the size."""
    fields = arrays["fields"]
    here = np.asarray((fields < UNREACHABLE).any(axis=0))
    rest = {name: values for name, values in arrays.items() if name != "fields"}
    return rest | {"here": here, "distances": fields[:, here]}


def _read(path: Path) -> Arrays:
    with np.load(path) as entry:  # checks each array's CRC
        arrays: Arrays = dict(entry)
    here, distances = arrays.pop("here"), arrays.pop("distances")
    fields = np.full((len(distances), *here.shape), UNREACHABLE, np.int16)
    fields[:, here] = distances
    return arrays | {"fields": fields}


@functools.cache
def recipe() -> str:
    """Return a digest of everything that a house depends on."""
    digest = hashlib.sha256(np.__version__.encode())
    for module in _MAKERS:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:16]
