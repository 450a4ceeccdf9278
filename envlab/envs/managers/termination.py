"""Terminations: failures end an episode for good, time-outs cut it off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.managers.term import FunctionTermCfg, bind, masked_mean, terms_of

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


@dataclass(kw_only=True)
class TerminationTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns bool ``(num_envs,)``."""

    time_out: bool = False
    """Whether the term is a time limit, after which the value of the state still counts."""


class TerminationManager:
    """Combines termination terms; reward terms may read :attr:`terminated` of the same step."""

    def __init__(self, cfg: Any, env: ManagerEnv) -> None:
        terms = terms_of(cfg, TerminationTermCfg)
        self.active_terms = list(terms)
        """Names of the terms."""
        self._functions = [bind(term, env) for term in terms.values()]
        self._is_time_out = [term.time_out for term in terms.values()]
        self._none = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self._values = [self._none] * len(terms)
        self.terminated = self._none
        """Environments that failed in this step, bool ``(num_envs,)``."""
        self.time_outs = self._none
        """Environments that reached a time limit in this step, bool ``(num_envs,)``."""

    def compute(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return :attr:`terminated` and :attr:`time_outs` of the current state."""
        self._values = [function() for function in self._functions]
        self.terminated, self.time_outs = self._none, self._none
        for value, is_time_out in zip(self._values, self._is_time_out, strict=True):
            if is_time_out:
                self.time_outs = self.time_outs | value
            else:
                self.terminated = self.terminated | value
        return self.terminated, self.time_outs

    def reset(self, mask: torch.Tensor, count: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return ``Episode_Termination/<term>``: the share of episodes that each term ended."""
        if not self._values:
            return {}
        means = masked_mean(torch.stack(self._values), mask, count)
        return dict(
            zip((f"Episode_Termination/{name}" for name in self.active_terms), means, strict=True)
        )
