"""Playing policies that skrl trained on JAX: returns over whole episodes, exported policies.

What is exported is a network of skrl on PyTorch with the same configuration and JAX's parameters.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import torch

from envlab.distributed.context import DistributedContext
from envlab.rl.command.session import Session
from envlab.rl.loop.export import export_policy
from envlab.rl.skrl.jax.arrays import to_jax, to_torch, tree_state
from envlab.rl.skrl.jax.learner import FRAMEWORK, make_learner
from envlab.rl.skrl.learner import check_algorithm
from envlab.rl.skrl.library import MODELS, component
from envlab.rl.skrl.torch.play import BestActions, SkrlPlayer, traced_policy


class JaxModel:
    """A model on JAX, as :class:`BestActions` calls one: torch's tensors in and out.

    Attributes:
        model: skrl's model.
    """

    def __init__(self, model: Any) -> None:
        """See :class:`JaxModel`."""
        self.model = model
        self._apply = jax.jit(model.apply, static_argnums=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def compute(self, inputs: Mapping[str, torch.Tensor], role: str) -> tuple[torch.Tensor]:
        """Return the network's output, without noise."""
        arrays = {name: to_jax(values) for name, values in inputs.items()}
        output, _ = self._apply(self.model.state_dict.params, arrays, role)
        return (to_torch(output),)


class JaxPlayer(SkrlPlayer):
    """See :class:`envlab.rl.command.play.Player`."""

    def __init__(
        self, session: Session, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._cfg = check_algorithm(session, FRAMEWORK)
        learner: Any = make_learner(env, self._cfg, context)
        learner.load_models(values)
        learner.agent.enable_models_training_mode(False)
        self._learner, self._env = learner, learner.env.env
        self._policies = {name: self._policy(name) for name in self._names()}
        self._shapes = [self._model(name).observation_space.shape for name in self._policies]

    def export(self, directory: Path) -> list[Path]:
        written = []
        for (name, policy), shape in zip(self._policies.items(), self._shapes, strict=True):
            try:
                twin = self._twin(name)
                graph = traced_policy(twin)
            except Exception as error:  # a network of one's own can do anything
                reason = str(error).splitlines()[0] if str(error) else ""
                print(
                    "Not exported: the network has no equal on PyTorch "
                    f"({type(error).__name__}: {reason})."
                )
                continue
            folder = directory if name == "agent" else directory / name
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchScript on annotations in skrl's constructors
                written += export_policy(graph, policy, shape, folder)
        return written

    def _names(self) -> list[str]:
        return list(getattr(self._learner.agent, "possible_agents", ["agent"]))

    @property
    def _role(self) -> str:
        return "q_network" if "q_network" in self._cfg.models else "policy"

    def _model(self, name: str) -> Any:
        models = self._learner.agent.models
        return (models[name] if self._cfg.is_multi_agent else models)[self._role]

    def _scaler(self, name: str, kind: str) -> Any:
        found = getattr(self._learner.agent, f"_{kind}_preprocessor")
        return found[name] if self._cfg.is_multi_agent else found

    def _policy(self, name: str) -> BestActions:
        """Return an agent's policy on JAX."""
        scalers = [_on_tensors(self._scaler(name, kind)) for kind in ("observation", "state")]
        kind = self._cfg.models[self._role]["class"]
        return BestActions(JaxModel(self._model(name)), self._role, kind, scalers)

    def _twin(self, name: str) -> BestActions:
        """Return an agent's policy on PyTorch.

        Raises:
            ValueError: If a layer is neither dense nor a convolution.
            RuntimeError: If the networks differ.
        """
        model, settings = self._model(name), dict(self._cfg.models[self._role])
        kind = settings.pop("class")
        instantiators = importlib.import_module("skrl.utils.model_instantiators.torch")
        twin = getattr(instantiators, MODELS[kind])(
            observation_space=model.observation_space,
            state_space=model.state_space,
            action_space=model.action_space,
            device="cpu",
            **settings,
        )
        twin.init_state_dict(role=self._role)
        order = [f"{container['name']}_container" for container in settings["network"]]
        parameters = tree_state(model.state_dict.params["params"])
        twin.load_state_dict(torch_parameters(parameters, order))
        scaler = self._scaler(name, "observation")
        if not hasattr(scaler, "running_mean"):
            return BestActions(twin, self._role, kind, (_same, _same))
        scaler_class = component("RunningStandardScaler", "agent.agent.observation_preprocessor")
        twin_scaler = scaler_class(
            model.num_observations,
            epsilon=scaler.epsilon,
            clip_threshold=scaler.clip_threshold,
            device="cpu",
        )
        state = tree_state(scaler.state_dict.params)
        state["current_count"] = state["current_count"].squeeze()
        twin_scaler.load_state_dict(state)
        return BestActions(twin, self._role, kind, (twin_scaler, _same))


def torch_parameters(
    state: Mapping[str, torch.Tensor], order: Sequence[str] = ()
) -> dict[str, torch.Tensor]:
    """Return parameters of a flax network under the names, and in the layout, of PyTorch's.

    Args:
        state: Parameters by path.
        order: The network's parts, in the order in which they are applied.

    Raises:
        ValueError: If a layer is neither dense nor a convolution.
    """
    parameters, channels = {}, 0
    for name, values in sorted(state.items(), key=lambda item: _place(item[0], order)):
        if name.endswith(".kernel"):
            if values.dim() == 4:  # height, width, channels in and out
                values, channels = values.permute(3, 2, 0, 1).contiguous(), values.shape[3]
            elif values.dim() == 2:
                if channels:  # the first dense layer after them sees an image with channels last
                    pixels = values.view(-1, channels, values.shape[1])
                    values, channels = pixels.transpose(0, 1).reshape(values.shape), 0
                values = values.T.contiguous()
            else:
                raise ValueError(
                    f"{name} has shape {tuple(values.shape)}, so it is neither dense nor a "
                    "convolution of images"
                )
        name = name.replace(".layers_", ".").replace(".kernel", ".weight")
        parameters[name] = values
    return parameters


def _place(name: str, order: Sequence[str]) -> tuple[int, int]:
    """Return a parameter's place in a network: its part, and its layer there."""
    part, *rest = name.split(".")
    layer = rest[0].removeprefix("layers_") if rest else ""
    return (
        order.index(part) if part in order else len(order),
        int(layer) if layer.isdigit() else 0,
    )


def _on_tensors(scaler: Callable[[Any], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a scaler of skrl on JAX, or the function in place of one, for tensors."""
    return lambda values: to_torch(scaler(to_jax(values)))


def _same(values: torch.Tensor) -> torch.Tensor:
    return values


make_player = JaxPlayer
