"""Houses on disk: shared by ranks, made again if damaged, optional if there is no room."""

from __future__ import annotations

import errno
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

import envlab_navigation.house_cache as house_cache
from envlab_navigation.house_cache import HouseCache
from tests.navigation.houses import load


def assert_equal(one, other) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert np.array_equal(values, other[name]), name


def test_a_house_is_made_once_and_read_after_that(tmp_path, monkeypatch):
    made = load("train", 0)
    HouseCache(tmp_path).load("train", 0)
    monkeypatch.setattr(house_cache, "make_house", None)  # it is not called
    assert_equal(HouseCache(tmp_path).load("train", 0), made)
    # Other code makes other entries.
    first = HouseCache(tmp_path).path("train", 0)
    monkeypatch.setattr(house_cache, "recipe", lambda: "another")
    assert HouseCache(tmp_path).path("train", 0) != first


def test_a_damaged_entry_is_made_anew_and_reported(tmp_path, caplog):
    cache = HouseCache(tmp_path)
    cache.load("train", 0)
    path = cache.path("train", 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    for wrong in (data[: len(data) // 2], data, b"", b"PK" * 99):
        path.write_bytes(wrong)
        assert_equal(cache.load("train", 0), load("train", 0))
        assert [one.getMessage().startswith("The house in") for one in caplog.records] == [True]
        caplog.clear()
        assert_equal(cache.load("train", 0), load("train", 0))
        assert not caplog.records


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path, caplog, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    cache = HouseCache(tmp_path / "file")
    for index in (0, 1):
        assert_equal(cache.load("train", index), load("train", index))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Houses cannot be kept in" in record.getMessage()
    assert "Or set env.houses.cache_dir" in record.getMessage()


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path, caplog, monkeypatch):
    def fill(file, **arrays):
        file.write(b"x")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", fill)
    assert_equal(HouseCache(tmp_path).load("train", 0), load("train", 0))
    assert "No space left on device" in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_ranks_may_share_a_folder(tmp_path):
    def read(_: int):
        return [HouseCache(tmp_path).load("train", index) for index in range(3)]

    with ThreadPoolExecutor(4) as pool:
        for houses in pool.map(read, range(4)):
            for index, house in enumerate(houses):
                assert_equal(house, load("train", index))
    names = sorted(path.name for path in Path(tmp_path).rglob("*") if path.is_file())
    assert names == ["0.npz", "1.npz", "2.npz"]
