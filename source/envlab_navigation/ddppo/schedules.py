"""Values that change with the number of steps: pure functions, so runs can resume anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envlab.errors import ConfigurationError


class Builder:
    """A class or function that is called later, as ``Builder(optim.Adam, dict(lr=3e-4))``.

    As in AllenAct 0.5.4, keywords of the call win over those given here, and these over defaults.
    """

    def __init__(
        self,
        class_type: Callable[..., Any],
        kwargs: Mapping[str, Any] | None = None,
        default: Mapping[str, Any] | None = None,
    ) -> None:
        self.class_type = class_type
        self.kwargs = {**(default or {}), **(kwargs or {})}

    def __call__(self, **kwargs: Any) -> Any:
        """Return the built object.

        Raises:
            ConfigurationError: If the arguments given here do not suit the class.
        """
        try:
            return self.class_type(**{**self.kwargs, **kwargs})
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{name}={value!r}" for name, value in self.kwargs.items())
            name = getattr(self.class_type, "__name__", self.class_type)
            raise ConfigurationError(
                f"The pipeline's {name} cannot be built with {given or 'no arguments'}: {error}. "
                "Correct them in its Builder."
            ) from error


@dataclass(frozen=True)
class LinearDecay:
    """A line from ``startp`` at step 0 to ``endp`` at step ``steps``, flat before and after."""

    steps: int
    startp: float = 1.0
    endp: float = 0.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigurationError(
                f"LinearDecay has steps={self.steps}, but must take at least 1 step. A decay that "
                "gets no steps at this budget can be left out."
            )

    def __call__(self, step: int) -> float:
        """Return the value at a step."""
        share = min(max(step, 0), self.steps) / self.steps
        return self.startp + (self.endp - self.startp) * share


@dataclass(frozen=True)
class MultiLinearDecay:
    """Decays one after the other; each begins at the step at which the one before it ends."""

    stages: Sequence[LinearDecay]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigurationError("MultiLinearDecay has no stages, but needs at least one.")

    def __call__(self, step: int) -> float:
        """Return the value at a step."""
        for stage in self.stages[:-1]:
            if step < stage.steps:
                return stage(step)
            step -= stage.steps
        return self.stages[-1](step)
