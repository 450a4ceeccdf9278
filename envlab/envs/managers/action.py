"""Actions: the policy's output, split into terms, each of which writes controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import torch

from envlab.envs.managers.term import TermCfg, terms_of
from envlab.envs.masks import clear
from envlab.envs.noise import NoiseCfg, refuse_bias
from envlab.envs.vector_env import VectorEnv
from envlab.sim.host import on_host
from envlab.sim.simulation import SimulationCfg
from envlab.state import State


@dataclass(kw_only=True)
class ActionTermCfg(TermCfg):
    """Configuration of an action term; :meth:`build` makes the term."""

    asset_name: str = "robot"
    """The thing of a composed scene whose joints are meant; in a scene of one file all are."""
    clip: tuple[float, float] | dict[str, tuple[float, float]] | None = None
    """Bounds of the control, after scale and offset, for all or by regular expressions of joints;
    joints that match none are free."""
    noise: NoiseCfg | None = None
    """Noise on the raw action, before the scale."""

    @property
    def data_fields(self) -> tuple[str, ...]:
        """Data fields that the term reads; they are added to ``env.sim.data_fields``."""
        return ()

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add what the term needs to the model, such as MuJoCo's sensors."""

    def build(self, env: VectorEnv) -> ActionTerm:
        """Return the term for ``env``."""
        raise NotImplementedError


def with_action_fields(sim: SimulationCfg, cfg: Any) -> SimulationCfg:
    """Return the settings of physics with the data fields that the actions of a task read."""
    read = [name for term in terms_of(cfg, ActionTermCfg).values() for name in term.data_fields]
    return replace(sim, data_fields=tuple(dict.fromkeys((*sim.data_fields, *read))))


def add_for_actions(cfg: Any, spec: mujoco.MjSpec) -> None:
    """Add what the actions of a task need to its model."""
    for term in terms_of(cfg, ActionTermCfg).values():
        term.add_to(spec)


class ActionTerm:
    """A slice of the action that writes ``sim.ctrl``: once a control step, or in each physics step.

    A term whose controls follow from the state as it moves sets :attr:`control_each_substep`. Then
    :meth:`apply` only takes the actions, and :meth:`control` writes the controls. One such term is
    enough for a control step to be ``decimation`` calls of the simulation instead of one.
    """

    dim: int
    """Size of the slice."""
    control_each_substep = False
    """Whether :meth:`control` is called before each physics step."""

    def apply(self, actions: torch.Tensor) -> None:
        """Write controls from ``actions``, ``(num_envs, dim)``, which include the noise."""
        raise NotImplementedError

    def control(self) -> None:
        """Write the controls of the next physics step; Isaac Lab's ``apply_actions``."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any] | None:
        """Describe how actions become controls, for ``deploy.yaml``; None if only code can.

        There are ``joint_names`` in the order of the action, a ``scale`` and ``offset`` for each,
        and ``clip``, None or the lower and the upper bound: two numbers, or a list of each.
        """
        return None

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the ended episodes of ``mask``, whose ``env.reset_qpos`` is staged by now."""


class ActionManager:
    """Splits actions into terms and remembers the last two.

    Attributes:
        action: Last action, ``(num_envs, total_action_dim)``; zero after a reset.
        prev_action: The action before it.
    """

    STATE = State(per_env=("action", "prev_action"), parts=("_terms",))

    def __init__(self, cfg: Any, env: VectorEnv) -> None:
        self._env = env
        self._cfgs = terms_of(cfg, ActionTermCfg)
        for name, term in self._cfgs.items():
            refuse_bias(term.noise, f"env.actions.{name}.noise")
        self._terms = {name: term.build(env) for name, term in self._cfgs.items()}
        self.total_action_dim = sum(term.dim for term in self._terms.values())
        self._last_two = torch.zeros(2, env.num_envs, self.total_action_dim, device=env.device)
        self.action, self.prev_action = self._last_two.unbind()

    @property
    def active_terms(self) -> list[str]:
        """Names of the terms."""
        return list(self._terms)

    def get_term(self, name: str) -> ActionTerm:
        """Return a term."""
        return self._terms[name]

    def substep_controls(self) -> dict[str, Callable[[], None]]:
        """Return what writes controls before each physics step, by its path."""
        return {
            f"env.actions.{name}": term.control
            for name, term in self._terms.items()
            if term.control_each_substep
        }

    def describe(self) -> dict[str, dict[str, Any] | None]:
        """Return :meth:`ActionTerm.describe` of each term, with its class as ``type``."""
        described = {name: term.describe() for name, term in self._terms.items()}
        return {name: _with_type(self._cfgs[name], one) for name, one in described.items()}

    def names(self) -> list[str]:
        """Return the joint that each number of an action moves, or else its term and index."""
        found: list[str] = []
        for name, term in self._terms.items():
            joints = (term.describe() or {}).get("joint_names", ())
            if len(joints) == term.dim:
                found += joints
            else:
                found += [name if term.dim == 1 else f"{name} {i}" for i in range(term.dim)]
        return found

    def process_action(self, actions: torch.Tensor) -> None:
        """Remember ``actions``, ``(num_envs, total_action_dim)``, and write all controls."""
        if on_host(actions.device):
            self.action, self.prev_action = self.prev_action, self.action
        else:  # a graph refers to addresses, not names
            self.prev_action.copy_(self.action)
        self.action.copy_(actions)
        start = 0
        for name, term in self._terms.items():
            cfg = self._cfgs[name]
            part = actions if len(self._terms) == 1 else actions[:, start : start + term.dim]
            start += term.dim
            if cfg.noise is not None:
                part = cfg.noise.apply(part, self._env.random.stream(f"actions.{name}"))
            term.apply(part)

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the last actions of the environments of ``mask``."""
        clear(self._last_two.transpose(0, 1), mask)
        for term in self._terms.values():
            term.reset(mask)


def _with_type(cfg: ActionTermCfg, facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a term describes, with its class and bounds; None if these are by joint."""
    if facts is None or ("clip" not in facts and isinstance(cfg.clip, dict)):
        return None
    clip = facts["clip"] if "clip" in facts else None if cfg.clip is None else list(cfg.clip)
    return {"type": type(cfg).__name__.removesuffix("Cfg"), **facts, "clip": clip}
