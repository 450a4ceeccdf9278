"""Playing policies that skrl trained on JAX.

An export is a network of skrl on PyTorch with the same configuration and JAX's parameters.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import torch

from envlab.skrl.jax.arrays import to_jax, to_torch, tree_state
from envlab.skrl.jax.learner import JaxLearner
from envlab.skrl.library import MODELS, SQUASHED, component
from envlab.skrl.networks import network_settings
from envlab.skrl.play import BestActions, SkrlPlayer
from envlab.skrl.torch.models import squash


class JaxModel:
    """A model on JAX with the interface of :class:`BestActions`: torch tensors in and out.

    Attributes:
        model: skrl's model.
    """

    def __init__(self, model: Any) -> None:
        """See :class:`JaxModel`."""
        self.model = model
        self._apply = jax.jit(model.apply, static_argnums=2)
        self._is_squashed = hasattr(model, "best")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def compute(self, inputs: Mapping[str, torch.Tensor], role: str) -> tuple[torch.Tensor]:
        """Return the network's output, without noise."""
        output, _ = self._apply(self.model.state_dict.params, self._arrays(inputs), role)
        return (to_torch(self.model.best(output) if self._is_squashed else output),)

    def act(self, inputs: Mapping[str, torch.Tensor], *, role: str) -> tuple[torch.Tensor]:
        """Return a sample of the network's distribution."""
        return (to_torch(self.model.act(self._arrays(inputs), role=role)[0]),)

    def _arrays(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, jax.Array]:
        return {name: _placed(values, self.model.device) for name, values in inputs.items()}


class JaxPlayer(SkrlPlayer):
    """See :class:`SkrlPlayer`."""

    _obstacle = "the network has no equal on PyTorch"

    def _policy(self, name: str) -> BestActions:
        kinds = ("observation", "state")
        scalers = [_on_tensors(self._scaler(name, kind), self._agent.device) for kind in kinds]
        return BestActions(JaxModel(self._model(name)), self._role, scalers)

    def _traceable(self, name: str) -> BestActions:
        """Return an agent's policy on PyTorch.

        Raises:
            ValueError: If a layer is neither dense nor a convolution.
            RuntimeError: If the networks differ.
        """
        model, settings = self._model(name), network_settings(self._cfg)[self._role]
        kind = settings.pop("class")
        instantiators = importlib.import_module("skrl.utils.model_instantiators.torch")
        twin = getattr(instantiators, MODELS[kind])(
            observation_space=model.observation_space,
            state_space=model.state_space,
            action_space=model.action_space,
            device="cpu",
            **settings,
        )
        if kind == SQUASHED:
            squash(twin)
        twin.init_state_dict(role=self._role)
        order = [f"{container['name']}_container" for container in settings["network"]]
        parameters = tree_state(model.state_dict.params["params"])
        twin.load_state_dict(torch_parameters(parameters, order))
        scaler = self._scaler(name, "observation")
        if not hasattr(scaler, "running_mean"):
            return BestActions(twin, self._role, (_same, _same))
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
        return BestActions(twin, self._role, (twin_scaler, _same))


def make_player(learner: JaxLearner) -> JaxPlayer:
    """Return the player of a learner that has loaded a checkpoint."""
    return JaxPlayer(learner)


def torch_parameters(
    state: Mapping[str, torch.Tensor], order: Sequence[str] = ()
) -> dict[str, torch.Tensor]:
    """Return parameters of a flax network with PyTorch's names and layout.

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
                if channels:  # the first dense layer after them gets an image with channels last
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
    """Return a parameter's place in a network: its part, and its layer in the part."""
    part, *rest = name.split(".")
    layer = rest[0].removeprefix("layers_") if rest else ""
    return (
        order.index(part) if part in order else len(order),
        int(layer) if layer.isdigit() else 0,
    )


def _on_tensors(
    scaler: Callable[[Any], Any], device: jax.Device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a scaler of skrl on JAX, or a function that replaces one, for tensors."""
    return lambda values: to_torch(scaler(_placed(values, device)))


def _placed(values: torch.Tensor, device: jax.Device) -> jax.Array:
    """Return a copy on a device; an export is checked with observations on the CPU."""
    return jax.device_put(to_jax(values), device)


def _same(values: torch.Tensor) -> torch.Tensor:
    return values
