"""Durations that follow from others."""

from __future__ import annotations

from envlab.envs import EnvCfg, SimulationCfg


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
