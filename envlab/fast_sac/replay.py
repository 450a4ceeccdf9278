"""The replay memory of a process: the last steps of all its environments, on their device.

Of a batch, every second transition may be mirrored. That costs no time, unlike adding mirror images
to it, and has the same gradient on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from envlab.distributed.limits import describe_size, free_memory
from envlab.envs.mirror import Mirror, Reflection
from envlab.errors import CheckpointError, ConfigurationError
from envlab.state import Ring, Share, dealt_steps

MOST_STEPS = 2**53
"""Most steps that a memory has ever seen; a million a second would take 285 years."""


class Batch(NamedTuple):
    """Transitions, ``(size, ...)`` each."""

    obs: torch.Tensor
    critic_obs: torch.Tensor
    actions: torch.Tensor
    """The policy's actions, -1 to 1."""
    rewards: torch.Tensor
    """Discounted sums of up to ``n_step`` rewards, ``(size,)``."""
    discounts: torch.Tensor
    """Factors of the next state's value, ``(size,)``: 0 where the episode has failed."""
    next_obs: torch.Tensor
    next_critic_obs: torch.Tensor


class Replay:
    """Ring buffers of the last steps, raw: they are normalised when they are drawn."""

    def __init__(
        self,
        size: int,
        num_envs: int,
        sizes: Mapping[str, int],
        *,
        num_actions: int,
        gamma: float,
        n_step: int,
        device: torch.device,
        num_sharing: int = 1,
        is_saved: bool = True,
    ) -> None:
        """Allocate the memory.

        Args:
            size: Transitions of all environments.
            num_envs: Number of environments.
            sizes: Sizes of the observations ``obs`` and, if critics see others, ``critic_obs``.
            num_actions: Size of an action.
            gamma: Discount of a step.
            n_step: Number of summed rewards.
            device: Its device.
            num_sharing: Number of processes that each have a replay memory on the device, and share
                its free memory.
            is_saved: Whether checkpoints hold it.

        Raises:
            ConfigurationError: If it is too short for ``n_step``, or does not fit.
        """
        num_steps = size // num_envs
        if num_steps < n_step:
            raise ConfigurationError(
                f"agent.replay.size is {size}, but {n_step} steps of {num_envs} environments "
                f"(agent.algorithm.n_step) need at least {n_step * num_envs}."
            )
        self._num_steps, self._num_envs, self._gamma, self._n_step = (
            num_steps,
            num_envs,
            gamma,
            n_step,
        )
        self._is_saved = is_saved
        widths = {**sizes, **{f"next_{name}": size for name, size in sizes.items()}}
        widths |= {"actions": num_actions, "outcomes": 3}
        rows, row_bytes = num_steps * num_envs, 4 * sum(widths.values())
        free = free_memory() if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]
        free //= num_sharing
        if rows * row_bytes > free:  # zeros take no memory on a CPU until they are written to
            each = f" for each of {num_sharing} processes" if num_sharing > 1 else ""
            raise ConfigurationError(
                f"A replay memory of {rows:,} transitions takes {describe_size(rows * row_bytes)}, "
                f"but {describe_size(free)} are free on {device}{each}. Set agent.replay.size to "
                f"{free // row_bytes} or less."
            )
        self.tensors = {
            name: torch.zeros(rows, width, device=device) for name, width in widths.items()
        }
        self.num_added = 0
        """Number of steps added so far."""

    @property
    def num_held(self) -> int:
        """Number of stored steps of each environment."""
        return min(self.num_added, self._num_steps)

    def add(
        self,
        before: Mapping[str, torch.Tensor],
        actions: torch.Tensor,
        rewards: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        after: Mapping[str, torch.Tensor],
    ) -> None:
        """Add a step of all environments.

        Args:
            before: Observations by name, ``(num_envs, size)``.
            actions: ``(num_envs, num_actions)``.
            rewards: ``(num_envs,)``.
            terminated: Whether the episode failed, bool.
            truncated: Whether it was truncated, bool.
            after: Observations after the step: where an episode ended, its last one.
        """
        start = self.num_added % self._num_steps * self._num_envs
        rows = slice(start, start + self._num_envs)
        for name, values in before.items():
            self.tensors[name][rows] = values
            self.tensors[f"next_{name}"][rows] = after[name]
        self.tensors["actions"][rows] = actions
        outcomes = (rewards, terminated.float(), (terminated | truncated).float())
        torch.stack(outcomes, dim=1, out=self.tensors["outcomes"][rows])
        self.num_added += 1

    def sample(self, size: int) -> Batch:
        """Draw transitions uniformly, with replacement, from torch's generator."""
        held, device = self.num_held, self.tensors["actions"].device
        steps = min(self._n_step, held)
        # The latest steps do not have n rewards yet.
        age = torch.randint(steps - 1, held, (size,), device=device)
        step = torch.remainder(self.num_added - 1 - age, self._num_steps)
        env = torch.randint(self._num_envs, (size,), device=device)
        first = last = step * self._num_envs + env
        rewards, failed, ended = self.tensors["outcomes"].index_select(0, first).unbind(1)
        discounts = torch.full_like(rewards, self._gamma)
        for number in range(1, steps):
            rows = torch.remainder(step + number, self._num_steps) * self._num_envs + env
            reward, fails, ends = self.tensors["outcomes"].index_select(0, rows).unbind(1)
            continues = ended == 0.0
            rewards = torch.where(continues, rewards + discounts * reward, rewards)
            discounts = torch.where(continues, discounts * self._gamma, discounts)
            last = torch.where(continues, rows, last)
            failed, ended = (
                torch.where(continues, fails, failed),
                torch.where(continues, ends, ended),
            )
        obs, next_obs = self._rows("obs", first), self._rows("next_obs", last)
        has_own = "critic_obs" in self.tensors
        return Batch(
            obs=obs,
            critic_obs=self._rows("critic_obs", first) if has_own else obs,
            actions=self._rows("actions", first),
            rewards=rewards,
            discounts=discounts * (1.0 - failed),
            next_obs=next_obs,
            next_critic_obs=self._rows("next_critic_obs", last) if has_own else next_obs,
        )

    def state(self) -> dict[str, torch.Tensor | int] | None:
        """Return its contents, on the CPU; None if checkpoints do not hold it."""
        if not self._is_saved:
            return None
        rows = self.num_held * self._num_envs
        held = {name: values[:rows].cpu().clone() for name, values in self.tensors.items()}
        return {"num_added": self.num_added, **held}

    def set_state(self, state: Mapping[str, torch.Tensor | int]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            CheckpointError: If it is damaged, or of a memory of another size.
        """
        num_added = state.get("num_added")
        if type(num_added) is not int or not 0 <= num_added <= MOST_STEPS:
            raise _damaged(f"num_added is {num_added!r}, but must be from 0 to {MOST_STEPS}")
        rows = min(num_added, self._num_steps) * self._num_envs
        sound = {}
        for name, values in self.tensors.items():
            held = state.get(name)
            if not isinstance(held, torch.Tensor) or held.dtype != values.dtype:
                raise _damaged(f"{name} is not a tensor of {values.dtype}")
            if held.shape != (rows, values.shape[1]):
                raise _damaged(
                    f"{name} has shape {tuple(held.shape)}, but {(rows, values.shape[1])} fits "
                    f"{num_added} steps and agent.replay.size={self._num_steps * self._num_envs}"
                )
            if not held.isfinite().all():
                raise _damaged(f"{name} is not finite")
            sound[name] = held
        self.num_added = num_added
        for name, held in sound.items():
            self.tensors[name][:rows].copy_(held)

    def deal(
        self, saved: Sequence[Mapping[str, Any]], share: Share
    ) -> dict[str, torch.Tensor | int]:
        """Return a share of what several processes saved, as :meth:`state` would.

        Memories are per process, so that their length changes with the number of environments: of
        more steps than fit, the newest stay.
        """
        rings = [
            {
                name: Ring(values.unflatten(0, (-1, share.num_envs_before)), each["num_added"])
                for name, values in each.items()
                if name != "num_added"
            }
            for each in saved
        ]
        dealt: dict[str, torch.Tensor | int] = {}
        for name in self.tensors:
            steps = dealt_steps([ring[name] for ring in rings], share, self._num_steps)
            dealt |= {"num_added": len(steps), name: steps.flatten(0, 1)}
        return dealt

    def _rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self.tensors[name].index_select(0, rows)


def _damaged(problem: str) -> CheckpointError:
    return CheckpointError(
        f"The replay memory of the checkpoint cannot be used: {problem}. Resume from another "
        "checkpoint, or with the settings that the run had."
    )


def mirrored(batch: Batch, mirror: Mirror, groups: Mapping[str, str]) -> Batch:
    """Return a batch with every second transition mirrored.

    Args:
        batch: Raw transitions.
        mirror: The environment's mirror.
        groups: The observation groups of ``obs`` and, if critics see others, ``critic_obs``.
    """
    obs = mirror.obs[groups["obs"]]
    critic_obs = mirror.obs[groups.get("critic_obs", groups["obs"])]
    return batch._replace(
        obs=_half(batch.obs, obs),
        critic_obs=_half(batch.critic_obs, critic_obs),
        actions=_half(batch.actions, mirror.actions),
        next_obs=_half(batch.next_obs, obs),
        next_critic_obs=_half(batch.next_critic_obs, critic_obs),
    )


def check_mirror(mirror: Mirror, half_width: torch.Tensor, middle: torch.Tensor) -> None:
    """Refuse bounds of actions that change in the mirror.

    Raises:
        ConfigurationError: Naming them.
    """
    widths = mirror.actions(half_width).abs()
    if not (torch.allclose(widths, half_width) and torch.allclose(mirror.actions(middle), middle)):
        raise ConfigurationError(
            "agent.algorithm.symmetry is true, but the bounds of the task's actions differ from "
            f"their mirror image ({(middle - half_width).tolist()} to "
            f"{(middle + half_width).tolist()}). Leave the symmetry out, or make them symmetric."
        )


def _half(values: torch.Tensor, reflection: Reflection) -> torch.Tensor:
    image = values.clone()
    image[1::2] = reflection(values[1::2])
    return image
