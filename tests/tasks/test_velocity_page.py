"""A walking robot is what docs/add_a_task.md says: its functions make tasks that step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.registry import list_tasks, load_env_cfg

PAGE = Path(__file__).resolve().parents[2] / "docs/add_a_task.md"


def test_the_pages_robot_walks_on_both_grounds_and_to_play():
    (code,) = re.findall(r"```python\n(from envlab_tasks.*?)```", PAGE.read_text(), re.DOTALL)
    page: dict[str, Any] = {"__name__": "page"}
    exec(code, page)
    sizes = {}
    for name in ("flat", "flat_play", "rough", "rough_play"):
        cfg = page[name]()
        sizes[name] = cfg.scene.num_envs
        cfg.scene.num_envs = 2
        if cfg.scene.terrain is not None:
            cfg.scene.terrain.terrain_generator.num_rows = 1
            cfg.scene.terrain.terrain_generator.num_cols = 6
        env = ManagerEnv(cfg, context=DistributedContext.single("cpu"), seed=1)
        obs, _ = env.reset()
        assert obs["policy"].shape == (2, 235 if "rough" in name else 48)
        assert env.step(torch.zeros(2, 12))[1].isfinite().all()
        is_play = name.endswith("play")
        assert (env.cfg.events.base_external_force_torque is None) == is_play
        assert (env.cfg.curriculum is None) == (name != "rough")
        assert env.cfg.observations.policy.enable_corruption != is_play
        env.close()
    assert sizes == {"flat": 4096, "flat_play": 50, "rough": 4096, "rough_play": 50}


def test_no_configuration_of_a_task_inherits_more_than_three_deep():
    deep = {
        task.id: [kind.__name__ for kind in own]
        for task in list_tasks()
        if len(own := own_kinds(load_env_cfg(task))) > 3
    }
    assert deep == {}


def own_kinds(cfg: object) -> list[type]:
    """Return the classes of the registry's tasks that a configuration derives from."""
    return [kind for kind in type(cfg).__mro__ if kind.__module__.startswith("envlab_tasks.")]
