"""Durations that follow from others, and files of earlier versions."""

from __future__ import annotations

import pytest

from envlab.config import read_yaml
from envlab.envs import EnvCfg, SimulationCfg
from tests.envs.sliders import make_cfg


def test_max_episode_length_counts_steps():
    for dt, decimation, episode_length_s, steps in (
        (1.0 / 120.0, 2, 5.0, 300),
        (0.005, 4, 20.0, 1000),
        (0.001, 11, 0.55, 50),  # 50.00000000000001 by division
        (0.1, 1, 0.95, 10),  # a started step counts
    ):
        sim = SimulationCfg(dt=dt)
        cfg = EnvCfg(decimation=decimation, episode_length_s=episode_length_s, sim=sim)
        assert cfg.max_episode_length == steps


def test_durations_follow_overrides():
    cfg = EnvCfg(decimation=2, episode_length_s=1.0, sim=SimulationCfg(dt=0.1))
    cfg.sim.dt = 0.05
    assert cfg.step_dt == 0.1
    assert cfg.max_episode_length == 10


@pytest.mark.parametrize("new_cfg", [EnvCfg, make_cfg])
def test_files_of_earlier_versions_ask_for_compiled_steps_where_they_did(new_cfg, tmp_path):
    path = tmp_path / "env.yaml"
    for text, graph in {
        "graph: auto\nsim: {dt: 0.01, compile: true}": "compiled",
        "graph: 'on'\nsim: {dt: 0.01, compile: false}": "on",
        "sim: {dt: 0.01}": "auto",
    }.items():
        path.write_text(text)
        cfg = read_yaml(path, new_cfg())
        assert (cfg.graph, cfg.sim.dt) == (graph, 0.01)
