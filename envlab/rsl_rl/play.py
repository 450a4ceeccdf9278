"""Playing a policy that rsl_rl trained, and exporting it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.wrappers.rsl_rl import pack
from envlab.errors import ConfigurationError
from envlab.rsl_rl.learner import RslRlLearner
from envlab.training.export import ChannelsFirst, export_policy, export_steps
from envlab.training.plan import RunPlan


class RslRlPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        # Played and exported in float32, whatever the precision of training.
        cfg = dataclasses.replace(plan.agent_cfg, precision="float32")
        learner = RslRlLearner(env, cfg, context)
        learner.load_models(values)
        learner.alg.eval_mode()
        self._model = learner.alg.get_policy()
        self._env, self._device = env, context.device
        self._clip = plan.agent_cfg.clip_actions

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._model.is_recurrent:  # no memory of another episode
            rows = len(next(iter(obs.values())))
            if rows != self._env.num_envs:
                raise ConfigurationError(
                    f"This policy remembers what it has seen of {self._env.num_envs} environments, "
                    f"but is given observations of {rows}. Load it with num_envs={rows}, and step "
                    "its own env."
                )
            self._model.reset((self._env.episode_length_buf == 0).to(self._device))
        actions = self._model(pack(obs).to(self._device))
        return self._clipped(actions.to(self._env.device))

    def export(self, directory: Path) -> list[Path]:
        model: Any = self._model.to("cpu")
        groups = [*model.obs_groups, *getattr(model, "obs_groups_2d", [])]
        if len(model.obs_groups) > 1 or (len(groups) > 1 and not model.obs_groups):
            print("Not exported: only policies on one group of vectors or one image can be, or on")
            print(f"one group of vectors and images. This one observes {', '.join(groups)}.")
            return []
        if model.is_recurrent or len(groups) > 1:
            step = _Step(model, self._clip)
            return export_steps(step, step.inputs(), step.outputs, directory)

        def reference(obs: torch.Tensor) -> torch.Tensor:
            return self._clipped(model(pack({groups[0]: obs})))

        shape = self._env.obs_buf[groups[0]].shape[1:]
        policy = model.as_onnx(verbose=False)
        if len(shape) == 3:  # the library's own needs a vector in addition to the image
            output = policy.deterministic_output
            policy = nn.Sequential(ChannelsFirst(), *policy.cnns, policy.mlp, output)
        if self._clip is not None:
            policy = nn.Sequential(policy, nn.Hardtanh(-self._clip, self._clip))
        return export_policy(policy, reference, shape, directory)

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        return actions if self._clip is None else actions.clamp(-self._clip, self._clip)


class _Step(nn.Module):
    """One step of a policy with a memory, or of one that sees images and a vector.

    Attributes:
        outputs: Names of the outputs: actions, and the memory after them (``c_out``: LSTM only).
    """

    def __init__(self, model: Any, clip: float | None) -> None:
        super().__init__()
        self._policy, self._clip = model.as_onnx(verbose=False), clip
        self._num_images = len(getattr(model, "obs_groups_2d", []))
        self._obs_dim = model.obs_dim
        self.outputs = self._policy.output_names

    def inputs(self) -> dict[str, torch.Tensor]:
        """Return random inputs by name.

        They are ``(batch, num_obs)``, images in the task's layout ``(batch, height, width,
        channels)``, and memories ``(batch, num_layers, hidden)``. rsl_rl's own file has the layers
        first, which is the same for one robot and one layer.
        """
        generator = torch.Generator().manual_seed(0)
        policy = self._policy
        sizes = [[self._obs_dim]]
        if self._num_images:
            images = zip(policy.obs_dims_2d, policy.obs_channels_2d, strict=True)
            sizes += [[*size, channels] for size, channels in images]
        for _ in self.outputs[1:]:
            sizes.append([policy.num_layers, policy.hidden_size])
        return {
            name: torch.randn(16, *size, generator=generator).clamp(-1.0, 1.0)
            for name, size in zip(policy.input_names, sizes, strict=True)
        }

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return actions and memories, batch first."""
        obs, *rest = inputs
        images = [image.permute(0, 3, 1, 2) for image in rest[: self._num_images]]
        memory = [part.transpose(0, 1) for part in rest[self._num_images :]]
        outputs = self._policy(obs, *images, *memory)
        actions, *after = outputs if isinstance(outputs, tuple) else (outputs,)
        if self._clip is not None:
            actions = actions.clamp(-self._clip, self._clip)
        return actions, *(part.transpose(0, 1) for part in after if part is not None)
