"""An adaptive learning rate that graphs read and change, for the recorded updates of libraries."""

from __future__ import annotations

import torch


class AdaptiveRate:
    """The rate of an Adam, which is a tensor during updates, and so are the counts of its steps.

    Between updates both are what the library expects, so that checkpoints are the same.

    Attributes:
        value: 0-d, float64: as precise as the numbers of Python that libraries keep.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device | str) -> None:
        self._optimizer = optimizer
        self.value = torch.zeros((), dtype=torch.float64, device=device)
        # A GPU's fused kernels read 32 bits.
        self._given = self.value.float() if optimizer.defaults.get("fused") else self.value

    def begin(self, rate: float) -> None:
        """Let the optimizer read rate and steps on the device."""
        self._set(self.value.fill_(rate))
        for group in self._optimizer.param_groups:
            group["lr"], group["capturable"] = self._given, True
        for state in self._optimizer.state.values():
            if state["step"].device != self.value.device:
                state["step"] = state["step"].to(self.value.device)

    def end(self, rate: float) -> None:
        """Set the optimizer up like the library, with the rate that was read."""
        for group in self._optimizer.param_groups:
            group["lr"], group["capturable"] = rate, False

    @torch.no_grad()
    def adapt(
        self,
        is_far: torch.Tensor,
        is_near: torch.Tensor,
        *,
        lowest: float,
        highest: float,
        factor: float = 1.5,
    ) -> None:
        """Change the rate by a divergence from the policy that acted, without reading it.

        Args:
            is_far: Whether it is too large, so that the rate falls, bool 0-d.
            is_near: Whether it is too small, so that the rate rises, bool 0-d; not both.
            lowest: Bound of a rate that falls.
            highest: Bound of a rate that rises.
            factor: By how much it changes.
        """
        slower = (self.value / factor).clamp(min=lowest)
        faster = (self.value * factor).clamp(max=highest)
        rate = torch.where(is_near, faster, self.value)
        self._set(torch.where(is_far, slower, rate))

    def _set(self, rate: torch.Tensor) -> None:
        self.value.copy_(rate)
        if self._given is not self.value:
            self._given.copy_(rate)
