"""Untrusted archives of arrays, read within limits: ``.npz`` without numpy's trust in headers."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from envlab.foreign import check_file, printable

MOST_ARRAY_BYTES = 2**29
"""Limit of the arrays of an archive, unpacked: hours of a humanoid's motion."""
MOST_ARRAYS = 256
"""Limit of their number."""


def read_arrays(path: Path, most_bytes: int = MOST_ARRAY_BYTES) -> dict[str, np.ndarray]:
    """Return the arrays of a ``.npz``; texts in them are made :func:`printable`.

    Nothing is unpacked before its size is known: a small archive may hold terabytes of zeros, and
    an array's header may promise more than follows.

    Raises:
        OSError: If it cannot be read, or :func:`check_file` refuses it.
        ValueError: If it is damaged, or no archive of arrays, or exceeds a limit.
    """
    check_file(path, most_bytes)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if len(members) > MOST_ARRAYS or size > most_bytes:
                raise ValueError(
                    f"it has {len(members)} arrays of {size} bytes, more than {MOST_ARRAYS} or "
                    f"{most_bytes}"
                )
            return {
                member.filename.removesuffix(".npy"): _array(archive, member) for member in members
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        # The last of them is what zipfile raises for an encrypted member or a foreign compression.
        raise ValueError(str(error) or type(error).__name__) from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Return an array of an archive.

    Raises:
        ValueError: If it is none, holds objects, or is longer than its file.
    """
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in read_header:
            raise ValueError(f"{member.filename} has the unknown version {version}")
        shape, in_columns, dtype = read_header[version](file)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} holds objects, which are never unpickled")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > member.file_size:
            raise ValueError(f"{member.filename} declares the shape {shape}, but has another")
        data = file.read(size)
    array = np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if in_columns else "C")
    if dtype.kind in "US":
        return np.array([printable(str(text)) for text in array.reshape(-1)]).reshape(shape)
    return array
