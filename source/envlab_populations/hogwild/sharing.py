"""Parameters, optimizers' states and running statistics of a trial, in memory that sessions share.

There are no locks, as in Hogwild!: a session may read a tensor that another is writing, and of two
simultaneous writes of one number, one may be lost. Each session keeps its own target networks,
SAC's temperature and replay memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from envlab.skrl.library import load_skrl

load_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402

State = dict[str, torch.Tensor]


class Lookahead(torch.optim.RAdam):
    """RAdam that returns to slow weights, which move towards its own, every few steps.

    Zhang et al. (2019), "Lookahead Optimizer: k steps forward, 1 step back", algorithm 1, with
    SLM-Lab's inner optimizer.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, *, alpha: float = 0.5, k: int = 5, **kw: Any
    ) -> None:
        """Begin with slow weights that equal the parameters.

        Args:
            params: Parameters, or groups of them.
            lr: RAdam's learning rate.
            alpha: Share of the way that slow weights go, 0 to 1.
            k: Steps from one return to the next, at least 1.
            **kw: RAdam's other arguments.
        """
        super().__init__(params, lr, **kw)
        for group in self.param_groups:
            group.setdefault("alpha", alpha)
            group.setdefault("k", k)

    def step(self, closure: Any = None) -> Any:
        """Take a step of RAdam's, and every ``k`` steps one of the slow weights."""
        start = {
            one: one.detach().clone() for one in _targets(self) if "slow" not in self.state[one]
        }
        loss = super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    state = self.state[parameter]
                    if parameter.grad is None:
                        continue
                    slow = state.setdefault("slow", start.get(parameter))
                    if state["step"] % group["k"] == 0:
                        parameter.copy_(slow.lerp_(parameter, group["alpha"]))
        return loss


_MOMENTS = {
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "radam": ("exp_avg", "exp_avg_sq"),
    "lookahead": ("exp_avg", "exp_avg_sq"),
    "rmsprop": ("square_avg",),
}
"""An optimizer's state of each parameter, without the number of steps (torch 2.6 to 2.13)."""
_CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
    "lookahead": Lookahead,
    "rmsprop": torch.optim.RMSprop,
}


@dataclass(kw_only=True)
class Shared:
    """The state that sessions share; it is passed as an argument to their processes."""

    parameters: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """Parameters by optimizer, in its order."""
    states: dict[str, list[State]] = field(default_factory=dict)
    """Each optimizer's state of each of its parameters, in the same order."""
    statistics: dict[str, State] = field(default_factory=dict)
    """Statistics of running scalers."""

    @classmethod
    def of(cls, agent: Any, optimizer: str) -> Shared:
        """Return copies of an agent's state in shared memory.

        Args:
            agent: skrl's agent.
            optimizer: Its optimizers' kind, of ``cfg.OPTIMIZERS``.
        """
        shared = cls()
        for name, own in optimizers(agent):
            parameters = parameters_of(own)
            shared.parameters[name] = [_shared(parameter.detach()) for parameter in parameters]
            shared.states[name] = [_empty_state(parameter, optimizer) for parameter in parameters]
        for name, scaler in scalers(agent):
            shared.statistics[name] = {
                key: _shared(buffer) for key, buffer in scaler.named_buffers()
            }
        return shared

    def join(self, agent: Any, *, synced: bool) -> None:
        """Let an agent train on the shared state.

        Args:
            agent: skrl's agent, of the configuration that this was made from.
            synced: Whether it keeps local networks, whose gradients update the shared ones.
        """
        for name, optimizer in list(optimizers(agent)):
            local, shared = parameters_of(optimizer), self.parameters[name]
            if synced:
                optimizer = _synced_class(type(optimizer))(optimizer.param_groups, local, shared)
                replace_optimizer(agent, name, optimizer)
            else:
                for parameter, tensor in zip(local, shared, strict=True):
                    parameter.data = tensor
            adopt(optimizer, self.states[name])
        for name, scaler in scalers(agent):
            for key, tensor in self.statistics[name].items():
                setattr(scaler, key, tensor)
        follow_targets(agent)

    def take(self, agent: Any) -> None:
        """Copy the state of an agent here, such as a checkpoint's networks and optimizers."""
        for name, optimizer in optimizers(agent):
            with torch.no_grad():
                for mine, own in zip(self.parameters[name], parameters_of(optimizer), strict=True):
                    mine.copy_(own)
            for state, parameter in zip(self.states[name], _targets(optimizer), strict=True):
                for key, value in optimizer.state.get(parameter, {}).items():
                    state[key].copy_(value)
        self.hold(agent)

    def hold(self, agent: Any) -> None:
        """Give the shared states to an agent's optimizers again, after these loaded others."""
        for name, optimizer in optimizers(agent):
            adopt(optimizer, self.states[name])


def optimizers(agent: Any) -> Iterator[tuple[str, torch.optim.Optimizer]]:
    """Yield an agent's optimizers of networks by name; the temperature's belongs to a session."""
    for name, module in agent.checkpoint_modules.items():
        if isinstance(module, torch.optim.Optimizer) and name != "entropy_optimizer":
            yield name, module


def scalers(agent: Any) -> Iterator[tuple[str, RunningStandardScaler]]:
    """Yield an agent's running scalers by name."""
    for name, module in agent.checkpoint_modules.items():
        if isinstance(module, RunningStandardScaler):
            yield name, module


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return an optimizer's parameters in its order; a synced one's are a session's own."""
    local: list[torch.nn.Parameter] | None = getattr(optimizer, "local", None)
    return local or _targets(optimizer)


def _targets(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return the parameters that an optimizer steps, in its order."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def make_optimizer(kind: str, parameters: Any, lr: float, **settings: Any) -> Any:
    """Return torch's optimizer of parameters, or of groups of them, fused where it can be."""
    how = {"fused": True} if kind in ("adam", "adamw") else {"foreach": True}
    return _CLASSES[kind](parameters, lr=lr, **how, **settings)


def replace_optimizer(agent: Any, name: str, optimizer: torch.optim.Optimizer) -> None:
    """Give an agent another optimizer."""
    setattr(agent, name, optimizer)
    agent.checkpoint_modules[name] = optimizer


def adopt(optimizer: torch.optim.Optimizer, states: list[State]) -> None:
    """Give states to an optimizer, which then writes into them."""
    for parameter, state in zip(_targets(optimizer), states, strict=True):
        optimizer.state[parameter] = state


def follow_targets(agent: Any) -> None:
    """Copy networks into the target networks that follow them."""
    for role, model in agent.models.items():
        if role.startswith("target_"):
            model.update_parameters(agent.models[role.removeprefix("target_")], polyak=1.0)


def _synced_class(kind: type[torch.optim.Optimizer]) -> Any:
    """Return an optimizer that steps shared parameters by a session's own gradients."""

    class Synced(kind):  # type: ignore[valid-type, misc]
        """Pushes gradients to the shared parameters, and pulls the parameters after each step."""

        def __init__(self, groups: Any, local: Any, shared: list[torch.Tensor]) -> None:
            left = iter(shared)
            mine = [
                {**group, "params": [torch.nn.Parameter(next(left)) for _ in group["params"]]}
                for group in groups
            ]
            super().__init__(mine)
            self.local = local
            self._pull()

        def zero_grad(self, set_to_none: bool = True) -> None:
            # torch would clear the shared parameters' gradients, which are those of this process
            # only by chance: SLM-Lab's gradients summed up over all steps.
            for parameter in self.local:
                parameter.grad = None

        def step(self, closure: Any = None) -> None:
            for shared, local in zip(_targets(self), self.local, strict=True):
                shared.grad = local.grad
            super().step(closure)
            self._pull()

        def _pull(self) -> None:
            with torch.no_grad():
                torch._foreach_copy_(self.local, tuple(_targets(self)))

    return Synced


def _empty_state(parameter: torch.Tensor, optimizer: str) -> State:
    moments = {name: _shared(torch.zeros_like(parameter)) for name in _MOMENTS[optimizer]}
    if optimizer == "lookahead":
        moments["slow"] = _shared(parameter)
    step = _shared(torch.zeros((), dtype=torch.float32, device=parameter.device))
    return {"step": step, **moments}


def _shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in shared memory; one on a GPU is shared by CUDA IPC as it is."""
    return tensor.detach().clone().share_memory_()
