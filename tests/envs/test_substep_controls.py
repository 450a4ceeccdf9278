"""Controls that are written before each physics step, without a cost to other tasks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SimulationCfg, VectorEnv, mdp
from envlab.envs.actuators import IdealPDActuatorCfg
from envlab.envs.managers import ActionTerm, ActionTermCfg
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import CTRL_PUSH, DT, MODEL, PUSH, make_cfg, rank, terms
from tests.envs.test_direct_env import PushCfg, PushEnv

STIFFNESS = 30.0


@dataclass(kw_only=True)
class SpringActionCfg(ActionTermCfg):
    """A spring from the slider to where the action says."""

    def build(self, env: VectorEnv) -> SpringAction:
        return SpringAction(env)


class SpringAction(ActionTerm):
    dim = 1
    control_each_substep = True

    def __init__(self, env: VectorEnv) -> None:
        self._sim = env.sim

    def apply(self, actions: torch.Tensor) -> None:
        self._goals = actions[:, 0].clone()

    def control(self) -> None:
        length = self._goals - self._sim.data.qpos[:, PUSH]
        self._sim.ctrl[:, CTRL_PUSH] = STIFFNESS * length


class SpringEnv(PushEnv):
    """The same spring in a direct task."""

    control_each_substep = True

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self.goals = actions[:, 0]

    def _apply_action(self) -> None:
        self.calls.append("apply")
        self.sim.ctrl[:, CTRL_PUSH] = STIFFNESS * (self.goals - self.sim.data.qpos[:, PUSH])


def sprung(decimation: int, backend: str = "mujoco", **actions: Any) -> ManagerEnv:
    cfg = make_cfg(
        3,
        sim={"dt": DT / 4, "backend": backend},
        actions=terms(**(actions or {"spring": SpringActionCfg()})),
    )
    cfg.decimation, cfg.episode_length_s = decimation, 100.0
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


def count_calls(env: VectorEnv) -> Counter[str]:
    """Count the calls of the simulation from now on."""
    calls: Counter[str] = Counter()
    for name in ("step", "substep"):
        function = getattr(env.sim, name)

        def counted(*args: Any, name: str = name, function: Any = function) -> None:
            calls[name] += 1
            function(*args)

        setattr(env.sim, name, counted)
    return calls


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_four_physics_steps_of_a_step_are_four_steps_of_one(backend: str):
    pytest.importorskip(backend, reason="needs mujoco-warp: pip install -e '.[warp]'")
    coarse, fine = sprung(4, backend), sprung(1, backend)
    for goal in (1.0, -0.5, 0.2):
        actions = torch.tensor([[goal], [2.0 * goal], [0.0]])
        coarse.step(actions)
        for _ in range(4):
            fine.step(actions)
        assert torch.equal(coarse.sim.data.qpos, fine.sim.data.qpos)
    assert coarse.sim.data.qpos[0, PUSH].abs() > 0.01


def test_a_step_is_one_call_where_nobody_asks():
    plain = sprung(4, force=mdp.JointEffortActionCfg(joint_names="push"))
    asked = sprung(4)
    plain_calls, calls = count_calls(plain), count_calls(asked)
    for _ in range(3):
        plain.step(torch.zeros(3, 1))
        asked.step(torch.zeros(3, 1))
    assert plain_calls == {"step": 3}
    assert calls == {"substep": 12}


def test_a_direct_task_asks_by_its_class():
    def made(decimation: int) -> SpringEnv:
        sim = SimulationCfg(dt=DT / 4)
        scene = SceneCfg(num_envs=2, model=MODEL)
        cfg = PushCfg(episode_length_s=100.0, sim=sim, scene=scene, decimation=decimation)
        return SpringEnv(cfg, context=rank(0, 1), seed=0)

    coarse, fine = made(4), made(1)
    coarse.calls.clear()
    actions = torch.tensor([[1.0], [-2.0]])
    coarse.step(actions)
    assert coarse.calls[:4] == ["apply"] * 4
    for _ in range(4):
        fine.step(actions)
    assert torch.equal(coarse.sim.data.qpos, fine.sim.data.qpos)


def test_targets_of_actuators_in_torch_stay_where_a_term_does_not_write():
    """The servo's target is written once a step, the spring's controls in each physics step."""

    def moved(*, in_torch: bool) -> torch.Tensor:
        cfg = make_cfg(
            2,
            sim={"dt": DT / 4},
            actions=terms(
                spring=SpringActionCfg(), servo=mdp.JointPositionActionCfg(joint_names="servo")
            ),
        )
        cfg.decimation = 4
        pd = {"stiffness": 10.0, "damping": 1.0, "in_torch": in_torch}
        cfg.scene.actuators = {
            "servo": IdealPDActuatorCfg(**pd),
            "push": IdealPDActuatorCfg(stiffness=0.0, damping=0.0, in_torch=in_torch),
        }
        env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
        for _ in range(3):
            env.step(torch.tensor([[1.0, 0.3], [-1.0, 0.1]]))
        return env.sim.data.qpos.clone()

    ours = moved(in_torch=True)
    torch.testing.assert_close(ours, moved(in_torch=False), rtol=1e-5, atol=1e-6)
    assert ours[0, PUSH].abs() > 0.1


def test_a_term_in_each_physics_step_keeps_the_promises_of_every_task():
    cfg = make_cfg(2, sim={"dt": DT / 4}, actions=terms(spring=SpringActionCfg()))
    cfg.decimation = 4
    assert_keeps_promises(cfg)


def test_closed_forms_have_no_physics_steps():
    cfg = load_env_cfg(get_task("Isaac-Cartpole-v0"))
    cfg.sim.backend, cfg.scene.num_envs = "analytic", 2
    cfg.actions = terms(spring=SpringActionCfg())
    with pytest.raises(
        ConfigurationError,
        match=r"env\.actions\.spring is called before each physics step, and env\.sim\.backend",
    ):
        ManagerEnv(cfg, context=rank(0, 1), seed=0)
