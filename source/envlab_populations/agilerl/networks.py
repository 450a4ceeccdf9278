"""Networks of a program: their layers are read, and members start with the same ones."""

from __future__ import annotations

from typing import Any

from torch import nn

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.settings import tell

_PASSED = (nn.Sequential, nn.ModuleList, nn.Identity, nn.Flatten, nn.Dropout)
_ENDS = (nn.Softmax, nn.Sigmoid, nn.Tanh, nn.Softplus)


class MakeEvolvable:
    """A network's shape: hidden layers and their activation function.

    Attributes:
        net_config: The shape, as ``create_population`` takes it.
        arch: ``mlp``, which 0.1's programs read.
    """

    arch = "mlp"

    def __init__(self, network: nn.Module, input_tensor: Any = None, **_: Any) -> None:
        """Read a network's layers; its weights are not used.

        Raises:
            ConfigurationError: If it has other layers than linear ones.
        """
        layers = [part for part in network.modules() if not list(part.children())]
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        odd = [layer for layer in layers if not isinstance(layer, (nn.Linear, *_PASSED))]
        names = [type(layer).__name__ for layer in odd]
        last = max((i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear)), default=0)
        between = [
            type(x).__name__ for x in layers[:last] if not isinstance(x, (nn.Linear, *_PASSED))
        ]
        if len(linear) < 2 or not set(between) <= {"ReLU", "ELU", "GELU", "Tanh"}:
            raise ConfigurationError(
                f"The network {type(network).__name__} has {', '.join(names) or 'no layers'}, but "
                "members read networks of linear layers with ReLU, ELU, GELU or Tanh between "
                "them. Give the initial layers by net_config."
            )
        self.net_config: dict[str, Any] = {
            "hidden_size": [layer.out_features for layer in linear[:-1]],
            **({"activation": between[0]} if between else {}),
        }
        tell(f"{type(network).__name__}: members begin with its layers, not with its weights")
        if layers and isinstance(layers[-1], _ENDS):
            tell(f"{type(network).__name__}: its last {type(layers[-1]).__name__} has no effect")


class DummyEvolvable(MakeEvolvable):
    """The same, for a class of networks and its arguments."""

    def __init__(self, module_fn: Any, module_kwargs: Any = None, **_: Any) -> None:
        super().__init__(module_fn(**(module_kwargs or {})))
