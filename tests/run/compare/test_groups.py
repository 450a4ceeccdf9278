"""Runs that only differ in the seed form a group, and labels distinguish groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.errors import ConfigurationError
from envlab.run.compare.groups import Group, group_runs
from envlab.run.compare.results import RunResult, find_results
from tests.fake_run import write_run


def read(root: Path) -> list[RunResult]:
    return find_results([str(root)], "mean_return")


def sizes(groups: list[Group]) -> dict[str, int]:
    return {group.label: len(group.runs) for group in groups}


def test_seeds_form_a_group_and_libraries_algorithms_and_sizes_divide(tmp_path: Path):
    for seed in range(3):
        write_run(tmp_path, [1.0], name=f"a{seed}", library="rsl_rl", size=2, seed=seed)
    write_run(tmp_path, [1.0], name="b", library="rsl_rl", size=1)
    write_run(tmp_path, [1.0], name="c", library="skrl", algorithm="PPO", ml_framework="torch")
    write_run(tmp_path, [1.0], name="d", library="skrl", algorithm="PPO", ml_framework="jax")
    assert sizes(group_runs(read(tmp_path))) == {
        "rsl_rl, 1 process": 1,
        "rsl_rl, 2 processes": 3,
        "skrl PPO jax, 1 process": 1,
        "skrl PPO torch, 1 process": 1,
    }


def test_the_number_of_environments_is_named_where_it_differs(tmp_path: Path):
    for count in (4096, 512):
        write_run(tmp_path, [1.0], name=f"{count}", global_num_envs=count)
    labels = [group.label for group in group_runs(read(tmp_path))]
    assert labels == [f"rsl_rl, 1 process, {count} environments" for count in (512, 4096)]


def test_other_keys_of_the_manifest_can_divide(tmp_path: Path):
    for name, grad_sync, size in (("a", "ddp", 2), ("b", "library", 2), ("c", None, 1)):
        write_run(tmp_path, [1.0], name=name, grad_sync=grad_sync, size=size)
    assert sizes(group_runs(read(tmp_path), ["grad_sync", "world.size"])) == {
        "grad_sync=ddp, world.size=2": 1,
        "grad_sync=library, world.size=2": 1,
        "grad_sync=null, world.size=1": 1,
    }
    assert sizes(group_runs(read(tmp_path), ["library"])) == {"library=rsl_rl": 3}


def test_keys_of_the_configuration_can_divide(tmp_path: Path):
    for name, rate in (("a", "0.001"), ("b", "1e-3"), ("c", "0.01")):
        params = write_run(tmp_path, [1.0], name=name) / "params"
        params.mkdir()
        (params / "agent.yaml").write_text(f"algorithm:\n  learning_rate: {rate}\n")
        (params / "env.yaml").write_text("decimation: 2\n")
    key = "agent.algorithm.learning_rate"
    assert sizes(group_runs(read(tmp_path), [key])) == {f"{key}=0.001": 2, f"{key}=0.01": 1}
    assert sizes(group_runs(read(tmp_path), ["library", "env.decimation"])) == {
        "library=rsl_rl, env.decimation=2": 3
    }
    with pytest.raises(ConfigurationError, match=rf"'learning_rate', .*Did you mean {key}\?"):
        group_runs(read(tmp_path), ["learning_rate"])
