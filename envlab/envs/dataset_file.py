"""Files of episodes in HDF5, laid out as Isaac Lab's and robomimic's.

``data/demo_0``, ``data/demo_1``, ... are episodes: groups of arrays whose rows are steps, such as
``actions``, ``obs/policy`` and ``states/articulation/robot/joint_position``, with the attributes
``num_samples``, ``success`` where it is measured, and ``seed``. ``data`` has the attributes
``total`` and ``env_args``. It needs the package ``h5py``.

A kill can break a file of HDF5 that is being written. So the episodes that end in a step are
written as a part, of NumPy's arrays, which is there whole or not at all. Parts are joined at the
end, or by whoever reads the file first.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envlab.distributed.disk import whole_file
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    import h5py

Arrays = Mapping[str, np.ndarray]
"""Arrays by their paths, such as ``obs/policy``."""
_EPISODE, _TASK = re.compile(r"demo_\d+"), re.compile(r"[\w./-]+")
MAX_BYTES = 1 << 32
"""Largest episode that is read from a file, uncompressed: a small file can claim any size."""


class DatasetWriter:
    """Writes episodes to a new file."""

    def __init__(self, path: Path, task: str) -> None:
        """Begin a file, which appears at :meth:`close`.

        Args:
            path: The file.
            task: Id of the task.

        Raises:
            ConfigurationError: If the file, or parts of it, already exist, or h5py is missing.
        """
        _h5py()
        self._path, self._task, self._parts = path, task, parts_of(path)
        if path.exists() or self._parts.exists():
            there = path if path.exists() else self._parts
            raise ConfigurationError(
                f"Episodes are to be recorded in {path}, but {there} already exists. Name "
                "another file, or move it away."
            )
        self._parts.mkdir(parents=True)
        self.num_episodes = 0

    def write(self, steps: Arrays, once: Arrays, attributes: Arrays) -> None:
        """Write episodes, so that a kill does not lose them.

        Args:
            steps: What has a row for each step, those of one episode after those of the other.
            once: What has a row for each episode.
            attributes: ``num_samples``, the episodes' steps, and others, ``(num_episodes,)`` each.
        """
        kinds = {"steps": steps, "once": once, "attributes": attributes}
        named = {f"{kind}:{name}": a for kind, some in kinds.items() for name, a in some.items()}
        with whole_file(self._parts / f"{self.num_episodes:08d}.npz") as stream:
            np.savez(stream, task=np.array(self._task), **named)  # type: ignore[arg-type]
        self.num_episodes += len(attributes["num_samples"])

    def close(self) -> None:
        """Join the parts, if there are any."""
        if any(self._parts.glob("*.npz")):
            join(self._path)
        elif self._parts.exists():
            self._parts.rmdir()


def parts_of(path: Path) -> Path:
    """Return the folder of the parts that a file is made of."""
    return path.with_name(f"{path.name}.parts")


def join(path: Path) -> None:
    """Make a file of its parts, and delete them."""
    h5py, task, total, number = _h5py(), "", 0, 0
    parts = sorted(parts_of(path).glob("*.npz"))
    with whole_file(path) as stream, h5py.File(stream, "w") as file:
        data = file.create_group("data")
        for part in parts:
            found: dict[str, dict[str, np.ndarray]] = {"steps": {}, "once": {}, "attributes": {}}
            for key, values in np.load(part).items():
                kind, colon, name = key.partition(":")
                if colon:
                    found[kind][name] = values
                else:
                    task = str(values)
            lengths = found["attributes"]["num_samples"].tolist()
            start = 0
            for index, length in enumerate(lengths):
                episode = data.create_group(f"demo_{number}")
                episode.attrs.update({n: a[index] for n, a in found["attributes"].items()})
                for name, values in found["steps"].items():
                    episode.create_dataset(name, data=values[start : start + length])
                for name, values in found["once"].items():
                    episode.create_dataset(name, data=values[index : index + 1])
                start, number = start + length, number + 1
            total += start
        data.attrs.update({"total": total, "env_args": json.dumps({"env_name": task, "type": 2})})
    shutil.rmtree(parts_of(path))


class Dataset:
    """A file of episodes that is read.

    Attributes:
        task: Id of the task; empty if the file does not say, or names something else.
        names: Names of the episodes, in the order of their numbers.
    """

    def __init__(self, path: Path, file: h5py.File) -> None:
        self._path, self._file = path, file
        data = file.get("data")
        found = data if isinstance(data, _h5py().Group) else ()
        # Others' names are not to become folders, or modules to import.
        self.names = sorted(filter(_EPISODE.fullmatch, found), key=lambda name: (len(name), name))
        if not self.names:
            raise ConfigurationError(
                f"{path} has no episodes: there is no group data/demo_0 in it. Give a file that "
                "envlab record, Isaac Lab or robomimic wrote."
            )
        try:
            task = str(json.loads(data.attrs.get("env_args", "{}")).get("env_name") or "")
        except (ValueError, TypeError, AttributeError):
            task = ""
        self.task = task if _TASK.fullmatch(task) else ""

    def attributes(self, name: str) -> dict[str, Any]:
        """Return an episode's attributes.

        Raises:
            ConfigurationError: If it is not one.
        """
        return dict(self._group(name).attrs)

    def episode(
        self, name: str, only: Collection[str] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return an episode's arrays by their paths, and its attributes.

        Args:
            name: The episode.
            only: The paths that are read; None: all.

        Raises:
            ConfigurationError: If it is not one, too large, or cannot be read.
        """
        h5py, group = _h5py(), self._group(name)
        found: dict[str, Any] = {}

        def take(path: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and (only is None or path in only):
                found[path] = item

        group.visititems(take)  # which follows hard links alone
        size = sum(item.size * item.dtype.itemsize for item in found.values())
        kinds = {item.dtype.kind for item in found.values()}
        lead_out = any(item.external or item.is_virtual for item in found.values())
        if size > MAX_BYTES or not kinds <= set("fiub") or lead_out:
            raise ConfigurationError(
                f"The episode {name!r} of {self._path} holds {size:,} bytes of the kinds "
                f"{', '.join(sorted(kinds))}, but must be numbers within the file, of at most "
                f"{MAX_BYTES:,} bytes."
            )
        try:
            return {path: item[()] for path, item in found.items()}, dict(group.attrs)
        except OSError as error:
            raise ConfigurationError(
                f"The episode {name!r} of {self._path} cannot be read ({error}): the file is "
                "damaged. Copy or record it again."
            ) from error

    def _group(self, name: str) -> h5py.Group:
        h5py = _h5py()
        data = self._file["data"]
        link = data.get(name, getlink=True) if name in self.names else None
        group = data[name] if isinstance(link, h5py.HardLink) else None  # others may lead elsewhere
        if not isinstance(group, h5py.Group):
            raise ConfigurationError(
                f"{self._path} has no episode {name!r}; its first are {', '.join(self.names[:3])}."
            )
        return group


@contextmanager
def open_dataset(path: Path) -> Iterator[Dataset]:
    """Open a file of episodes, joined first if its recording was killed.

    Raises:
        ConfigurationError: If there is none, or it is none.
    """
    h5py = _h5py()
    if not path.exists() and any(parts_of(path).glob("*.npz")):
        join(path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        reason = "there is no such file" if not path.exists() else str(error).splitlines()[0]
        raise ConfigurationError(
            f"{path} cannot be read as HDF5 ({reason}). Give a file that envlab record, Isaac Lab "
            "or robomimic wrote."
        ) from error
    with file:
        yield Dataset(path, file)


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"Files of episodes need the package {error.name!r}, which is not installed. Install "
            "it with: pip install -c constraints.txt -e '.[demos]'"
        ) from error
    return h5py
