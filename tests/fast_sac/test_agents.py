"""The settings of FastSAC's authors, as agents by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envlab.config import merge
from envlab.fast_sac.cfg import FastSacCfg
from envlab.registry import get_task, load_agent_values
from tests.small_runs import train_in
from tests.trained import only_run

WALKS, FOLLOWS = "Mjlab-Velocity-Flat-Unitree-G1", "Mjlab-Tracking-Flat-Unitree-G1"


@pytest.mark.parametrize(
    ("task", "updates", "discount", "atoms"), [(WALKS, 8, 0.97, 101), (FOLLOWS, 4, 0.99, 501)]
)
def test_the_authors_settings_are_chosen_by_name_alone(
    task: str, updates: int, discount: float, atoms: int
):
    values = load_agent_values(get_task(task), "fast_sac_holosoma")
    assert values is not None
    cfg = merge(FastSacCfg(), values, "agent")
    assert (cfg.algorithm.updates_per_step, cfg.algorithm.gamma) == (updates, discount)
    assert (cfg.critic.num_atoms, cfg.algorithm.batch_size) == (atoms, 8192)
    by_default = load_agent_values(get_task(task), "fast_sac") or {}
    assert merge(FastSacCfg(), by_default, "agent").algorithm.batch_size == 256


def test_a_run_records_the_agent_that_it_was_given(tmp_path: Path):
    small = ["agent.algorithm.batch_size=8", "agent.replay.size=512", "agent.num_steps_per_env=2"]
    small += ["agent.algorithm.updates_per_step=1", "--num_envs=4", "--max_iterations=1"]
    name = "fast_sac_holosoma_cfg_entry_point"
    words = [f"--task={WALKS}", f"--agent={name}", "--headless", *small]
    assert train_in("fast_sac", tmp_path, *words) == 0
    run = json.loads((only_run(tmp_path) / "run.json").read_text())
    assert name in json.dumps(run)
