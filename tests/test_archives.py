"""Archives of strangers: whatever is in them, reading ends soon, in arrays or in one exception."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from envlab.archives import read_arrays


def header(text: str) -> bytes:
    data = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data


def save(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def test_arrays_come_back_as_numpy_saved_them(tmp_path: Path):
    arrays = {
        "table": np.arange(6.0, dtype=np.float32).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.array(30.0),
        "names": np.array(["hip", "knee"]),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert set(found) == set(arrays)
    for name, values in arrays.items():
        assert np.array_equal(found[name], values)
        assert found[name].dtype == values.dtype
    found["table"][0] = 7.0  # may be written to


def test_texts_cannot_command_the_terminal(tmp_path: Path):
    np.savez(tmp_path / "a.npz", names=np.array(["\x1b]0;owned\x07", "hüfte"]))
    assert read_arrays(tmp_path / "a.npz")["names"].tolist() == ["\\x1b]0;owned\\x07", "hüfte"]


SHAPE = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},)}}"


def test_a_damaged_array_is_one_exception(tmp_path: Path):
    for data, message in [
        (header(SHAPE.format("<f8", 10**12)), r"declares .* \(1000000000000,\), but"),
        (header(SHAPE.format("<f8", -1)) + bytes(64), r"shape \(-1,\), but"),
        (header(SHAPE.format("|O", 1)) + b"cos\nsystem\n", "objects, which are never unpickled"),
        (header("import os"), None),
        (b"\x93NUMPY\x09\x00" + bytes(64), "unknown version"),
        (b"no array", None),
        (b"", None),
    ]:
        with pytest.raises(ValueError, match=message):
            read_arrays(save(tmp_path / "a.npz", a=data))


def test_zeros_that_unpack_to_more_than_the_limit_are_not_unpacked(tmp_path: Path):
    zeros = header(SHAPE.format("|u1", 2**22)) + bytes(2**22)
    path = save(tmp_path / "bomb.npz", a=zeros)
    assert path.stat().st_size < 2**13
    with pytest.raises(ValueError, match="1 arrays of 4194432 bytes, more than 256 or 1048576"):
        read_arrays(path, most_bytes=2**20)
    many = {f"a{number}": header(SHAPE.format("<f8", 0)) for number in range(300)}
    with pytest.raises(ValueError, match="it has 300 arrays"):
        read_arrays(save(tmp_path / "many.npz", **many))


def test_a_lying_directory_of_the_archive_is_noticed(tmp_path: Path):
    """Damage to the compressed bytes, an encrypted member, a truncated file."""
    np.savez_compressed(tmp_path / "a.npz", a=np.random.default_rng(0).normal(size=1000))
    data = (tmp_path / "a.npz").read_bytes()
    flags = data.index(b"PK\x01\x02") + 8
    for changed in (
        data[:200] + bytes(b ^ 255 for b in data[200:400]) + data[400:],
        data[:flags] + b"\x01" + data[flags + 1 :],
        data[: len(data) // 2],
    ):
        (tmp_path / "changed.npz").write_bytes(changed)
        with pytest.raises(ValueError, match=r"."):
            read_arrays(tmp_path / "changed.npz")


def test_a_pipe_and_a_single_array_are_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.npz")  # opening it would wait for a writer
    with pytest.raises(OSError, match="not a regular file"):
        read_arrays(tmp_path / "pipe.npz")
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    (tmp_path / "single.npz").write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="not a zip file"):
        read_arrays(tmp_path / "single.npz")
