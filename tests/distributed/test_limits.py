"""The limits of control groups, in both of their versions."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil
import pytest

from envlab.distributed import limits
from envlab.distributed.limits import (
    cpu_quota,
    describe_size,
    free_memory,
    memory_limit,
    memory_sizes,
    usable_cores,
    usable_threads,
)


def group(root: Path, files: dict[str, str]) -> Path:
    """Return the folder of a control group with these files, or without any."""
    folder = root / str(len(list(root.iterdir())))
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_the_cores_and_the_memory_of_a_control_group_are_read(tmp_path: Path):
    period = {"cpu/cpu.cfs_period_us": "100000\n"}
    for files, cores in [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n"} | period, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n"} | period, None),
        ({}, None),
    ]:
        assert cpu_quota(group(tmp_path, files)) == cores
    for files, limit in [
        ({"memory.max": "1073741824\n"}, 1 << 30),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "1073741824\n"}, 1 << 30),
        ({"memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, None),
    ]:
        assert memory_limit(group(tmp_path, files)) == limit


def test_cores_beyond_the_quota_are_not_used(tmp_path: Path, monkeypatch):
    """``docker --cpus=2`` on a machine with many cores, 8 of which the process may use."""
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: set(range(8)))
    for quota, cores in [("200000", 2), ("150000", 2), ("10000", 1), ("max", 8), ("6400000", 8)]:
        assert usable_cores(group(tmp_path, {"cpu.max": f"{quota} 100000\n"})) == cores


def test_the_users_number_of_threads_counts(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda pid: set(range(8)))
    for asked, processes, threads in [
        *(("", 1, 8), ("3", 1, 3), ("1", 1, 1), ("64", 1, 8), ("many", 1, 8), ("0", 1, 8)),
        *(("1", 2, 4), ("", 2, 4), ("3", 2, 3), ("", 16, 1)),  # 1 is the launcher's own
    ]:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert usable_threads(processes, tmp_path) == threads, (asked, processes)


def test_sizes_are_printed_in_the_unit_that_fits():
    total, free = memory_sizes()
    assert 0 < free < total
    sizes = [describe_size(count) for count in (12, 2048, 3 << 20, 5 << 30, 7 << 40)]
    assert sizes == ["12 B", "2.0 KiB", "3.0 MiB", "5.0 GiB", "7.0 TiB"]


def test_free_memory_respects_ulimit(tmp_path: Path, monkeypatch):
    unlimited, used = resource.RLIM_INFINITY, psutil.Process().memory_info().vms
    limits = {resource.RLIMIT_AS: used + 2**24, resource.RLIMIT_DATA: unlimited}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], unlimited))
    assert free_memory(tmp_path) == pytest.approx(2**24, abs=2**22)
    limits[resource.RLIMIT_AS] = unlimited
    assert free_memory(tmp_path) <= memory_sizes()[0]
