"""``envlab check``: tasks that break a promise are found, with the attribute or the line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from envlab.cli import main
from envlab.registry import get_task, load_env_cfg
from envlab.state import State
from envlab.task import Task
from envlab.tools.probe import brief, check
from envlab_tasks.classic.cartpole.cartpole_direct_env import CartpoleDirectEnv

TASK = get_task("Isaac-Cartpole-Direct-v0")
SEED, RESUME, RANKS, DEALT, GRAPHS = range(1, 6)
"""Places of the promises among those of a task."""


class Good(CartpoleDirectEnv):
    """Has a memory, and declares it."""

    STATE = State(per_env=("drift",))

    def _setup(self) -> None:
        super()._setup()
        self.drift = torch.zeros(self.num_envs, device=self.device)

    def _reset_envs(self, mask: torch.Tensor, count: Any) -> dict[str, Any]:
        self.drift.masked_fill_(mask, 0.0)
        return super()._reset_envs(mask, count)

    def _get_rewards(self) -> torch.Tensor:
        self.drift += self.sim.data.qvel[:, 0]
        return super()._get_rewards() + self.drift


class Leg:
    """A part of a task, with its own memory."""

    def __init__(self, num_envs: int) -> None:
        self.phase = torch.zeros(num_envs)


class Forgets(CartpoleDirectEnv):
    def _setup(self) -> None:
        super()._setup()
        self.legs = {"left": Leg(self.num_envs), "right": Leg(self.num_envs)}
        self.unread = torch.zeros(self.num_envs)

    def _reset_envs(self, mask: torch.Tensor, count: Any) -> dict[str, Any]:
        for leg in self.legs.values():
            leg.phase.masked_fill_(mask, 0.0)
        return super()._reset_envs(mask, count)

    def _get_rewards(self) -> torch.Tensor:
        phase = self.legs["right"].phase
        phase += self.sim.data.qvel[:, 0]
        self.unread += phase
        return super()._get_rewards() + phase


class Counts(CartpoleDirectEnv):
    number = 0

    def _reset_envs(self, mask: torch.Tensor, count: Any) -> dict[str, Any]:
        self.number = 0 if bool(mask.all()) else self.number
        return super()._reset_envs(mask, count)

    def _get_rewards(self) -> torch.Tensor:
        self.number += 1
        return super()._get_rewards() + self.number


class Draws(CartpoleDirectEnv):
    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards() + torch.rand(self.num_envs)


class KnowsItsProcess(CartpoleDirectEnv):
    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards() + torch.arange(self.num_envs, device=self.device)


class Reads(CartpoleDirectEnv):
    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards() + self.sim.data.qpos[0, 0].item() * 0.0


class ChangesLate(CartpoleDirectEnv):
    """Does something else in every tenth step, which two steps in sequence do not show."""

    def _get_rewards(self) -> torch.Tensor:
        rewards = super()._get_rewards()
        return rewards + 1.0 if self.common_step_counter % 10 == 0 else rewards


@dataclass(frozen=True, kw_only=True)
class Made(Task):
    """A task of a class that is not registered."""

    env: ClassVar[type[CartpoleDirectEnv]]

    def make(self, cfg: Any, **kwargs: Any) -> Any:
        return self.env(cfg, **kwargs)


def found(kind: type[CartpoleDirectEnv]) -> list[str | None]:
    """Return how a task breaks each promise."""
    made = type("OfTheTest", (Made,), {"env": kind})
    task = made(id="Test-v0", kind="direct", libraries=[], description="", kwargs={})
    return [result for _, result in check(task, brief(load_env_cfg(TASK)))]


def test_a_task_that_declares_its_memory_keeps_all_promises():
    assert found(Good) == [None] * 6


@pytest.mark.parametrize(
    ("kind", "place", "text"),
    [
        (Forgets, RESUME, r"since legs\['right'\]\.phase of Leg is changed .* Name .* in STATE"),
        (Counts, RESUME, r"reward differs .* since number of Counts is changed by steps"),
        (Draws, SEED, "the second run's reward differs after step 1 in 8 of 8 environments"),
        (KnowsItsProcess, RANKS, "on two processes, the reward differs after step 1 in 4 of 8"),
        (Reads, GRAPHS, r"_get_rewards\(\) in .*test_check\.py, line \d+, reads a tensor's values"),
        (
            ChangesLate,
            GRAPHS,
            r"_get_rewards\(\) in .*, line \d+, does something else in each step",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_promise_is_named(kind: type[CartpoleDirectEnv], place: int, text: str):
    results = found(kind)
    assert re.search(text, str(results[place])), results
    assert place in (SEED, GRAPHS) or results[SEED] is None


def test_the_command_prints_a_line_for_each_promise(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "Isaac-Cartpole-v0", "env.rewards.alive.weight=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("ok ") for line in lines)
    assert main(["check", "Isaac-Cartpole-v0", "env.scene.model=nothing.xml"]) == 2
    assert "nothing.xml" in capsys.readouterr().err
