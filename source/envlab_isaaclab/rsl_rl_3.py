"""rsl_rl 2's and 3's runners over the installed rsl_rl 5, for scripts of Isaac Lab's projects.

Both are imported as ``rsl_rl``, and take the configurations of :mod:`envlab_isaaclab.old_agents`.
New checkpoints are rsl_rl 5's; those of rsl_rl 2 and 3 can be loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from envlab.errors import CheckpointError, ConfigurationError
from envlab_bridge.agreement import check_configurations
from envlab_bridge.ranks import context, draw_apart
from envlab_bridge.rsl_rl import ScriptRunner
from envlab_isaaclab.app import resolve_device
from envlab_isaaclab.old_agents import new_configuration

_WEIGHTS = (
    ("std", "distribution.std_param"),
    ("log_std", "distribution.log_std_param"),
    ("{network}_obs_normalizer.", "obs_normalizer."),
    ("memory_{letter}.", "rnn."),
    ("{network}.", "mlp."),
)
"""Beginnings of names of weights in rsl_rl 2 and 3, and in rsl_rl 5."""


def old_weights(state: Mapping[str, torch.Tensor], network: str) -> dict[str, torch.Tensor]:
    """Return a network's weights of a checkpoint of rsl_rl 2 or 3 under rsl_rl 5's names.

    Args:
        state: ``model_state_dict`` of the checkpoint.
        network: ``actor``, ``critic``, ``student`` or ``teacher``.
    """
    found = {}
    letter = {"actor": "a", "critic": "c"}.get(network, network[0])
    for key, value in state.items():
        for old, new in _WEIGHTS:
            start = old.format(network=network, letter=letter)
            is_noise = not start.endswith(".")
            if key == start if is_noise else key.startswith(start):
                if not is_noise or network in ("actor", "student"):
                    found[new + key.removeprefix(start)] = value
                break
    return found


class Policy:
    """rsl_rl 2's and 3's view of the networks: ``runner.alg.policy``."""

    def __init__(self, alg: Any) -> None:
        self._alg = alg

    @property
    def model(self) -> Any:
        """rsl_rl 5's acting network."""
        return self._alg.get_policy()

    @property
    def is_recurrent(self) -> bool:
        """Whether it has a memory."""
        return bool(self.model.is_recurrent)

    @property
    def actor(self) -> Any:
        """The layers of the acting network."""
        return self.model.mlp

    student = actor

    @property
    def critic(self) -> Any:
        """The layers of the critic."""
        return self._alg.critic.mlp

    @property
    def actor_obs_normalizer(self) -> Any:
        """What normalises the acting network's observations."""
        return self.model.obs_normalizer

    student_obs_normalizer = actor_obs_normalizer

    def act_inference(self, obs: Any) -> torch.Tensor:
        """Return the means of actions."""
        means: torch.Tensor = self.model(packed(obs))
        return means

    __call__ = act_inference

    def reset(self, dones: torch.Tensor | None = None) -> None:
        """Forget memories where episodes ended."""
        self.model.reset(dones)

    def eval(self) -> Policy:
        """Switch to evaluation."""
        self._alg.eval_mode()
        return self

    def to(self, device: Any) -> Policy:
        """Move the acting network."""
        self.model.to(device)
        return self


def export_policy_as_jit(
    policy: Any, normalizer: Any, path: str, filename: str = "policy.pt"
) -> None:
    """Write the acting network as TorchScript, in place of ``isaaclab_rl``'s function."""
    module = getattr(policy, "model", policy).as_jit().to("cpu")
    Path(path).mkdir(parents=True, exist_ok=True)
    torch.jit.script(module).save(str(Path(path) / filename))


def export_policy_as_onnx(
    policy: Any,
    path: str,
    normalizer: Any = None,
    filename: str = "policy.onnx",
    verbose: bool = False,
) -> None:
    """Write the acting network as ONNX, in place of ``isaaclab_rl``'s function."""
    module = getattr(policy, "model", policy).as_onnx(verbose=verbose).to("cpu").eval()
    Path(path).mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        module,
        module.get_dummy_inputs(),
        str(Path(path) / filename),
        opset_version=18,
        input_names=module.input_names,
        output_names=module.output_names,
        dynamo=False,
    )


def packed(obs: Any) -> TensorDict:
    """Return observations as rsl_rl 5 takes them: rsl_rl 2 has a tensor, and groups in extras."""
    if isinstance(obs, TensorDict):
        return obs
    groups = {"policy": obs} if isinstance(obs, torch.Tensor) else dict(obs)
    return TensorDict(groups, batch_size=[len(next(iter(groups.values())))])


class _OldEnv(VecEnv):
    """An environment of rsl_rl 2, which returns a tensor, and other groups in its extras."""

    def __init__(self, env: Any) -> None:
        self.env, self.cfg = env, getattr(env, "cfg", {})
        self.num_envs, self.num_actions = env.num_envs, env.num_actions
        self.max_episode_length, self.device = env.max_episode_length, env.device

    @property
    def unwrapped(self) -> Any:
        """The environment itself."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
        lengths: torch.Tensor = self.env.episode_length_buf
        return lengths

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self.env.episode_length_buf = values

    def get_observations(self) -> TensorDict:
        return self._packed(*self.env.get_observations())

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        obs, rewards, dones, extras = self.env.step(actions)
        return self._packed(obs, extras), rewards, dones, extras

    def _packed(self, obs: torch.Tensor, extras: Mapping[str, Any]) -> TensorDict:
        return packed({"policy": obs, **extras.get("observations", {})})


class _OldRunner(ScriptRunner):
    """What rsl_rl 2's and 3's runners have in common."""

    def __init__(
        self, env: Any, train_cfg: dict[str, Any], log_dir: str | None = None, device: str = "cpu"
    ) -> None:
        check_configurations(train_cfg=train_cfg)
        where = context()
        if where.is_distributed and len(set(where.gather(torch.initial_seed()))) < where.world_size:
            draw_apart()  # scripts add the local rank to the seed, which repeats on other nodes
        cfg = new_configuration(train_cfg) if "policy" in train_cfg else dict(train_cfg)
        if isinstance(env.get_observations(), tuple):
            env = _OldEnv(env)
        log_dir = where.broadcast(log_dir)  # each rank's has its own time
        super().__init__(env, cfg, log_dir, str(resolve_device(str(device))))
        self.log_dir = log_dir
        self.alg.policy = self.alg.actor_critic = Policy(self.alg)

    @property
    def obs_normalizer(self) -> Any:
        """What normalises the policy's observations."""
        return self.alg.get_policy().obs_normalizer

    def get_inference_policy(  # type: ignore[override]
        self, device: str | None = None
    ) -> Callable[[Any], torch.Tensor]:
        """Return a function from observations to the mean actions."""
        self.alg.eval_mode()
        return Policy(self.alg)

    def load(  # type: ignore[override]
        self,
        path: str,
        load_optimizer: Any = True,
        strict: bool = True,
        map_location: str | None = None,
    ) -> Any:
        """Read a checkpoint of rsl_rl 5, or the weights of one of rsl_rl 2 or 3.

        Args:
            path: The file, which the script trusts.
            load_optimizer: Whether the optimizer's state is read as well.
            strict: Whether the file must have all weights.
            map_location: Ignored: what is read goes where the networks are.

        Raises:
            CheckpointError: If the file is none, or of another network.
        """
        try:
            state = torch.load(path, weights_only=False, map_location=self.device)
            if "model_state_dict" in state:
                return self._load_old(state, strict)
            parts = load_optimizer if isinstance(load_optimizer, dict) else None
            if load_optimizer is False:
                parts = {"actor": True, "critic": True, "student": True, "iteration": True}
            return super().load(path, parts, strict, str(self.device))
        except (KeyError, OSError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} is no checkpoint of these networks by rsl_rl: {error}"
            ) from error

    def _load_old(self, state: Mapping[str, Any], strict: bool) -> Any:
        weights = state["model_state_dict"]
        names = ("actor", "critic") if hasattr(self.alg, "actor") else ("student", "teacher")
        for name in names:
            # A teacher's checkpoint is that of an actor.
            source = "actor" if name == "teacher" and "teacher.0.weight" not in weights else name
            found = old_weights(weights, source)
            if found or name != "student":
                own = getattr(self.alg, f"_raw_{name}")
                if name == "teacher":
                    found |= {k: v for k, v in own.state_dict().items() if k not in found}
                own.load_state_dict(found, strict=strict)
        if hasattr(self.alg, "teacher_loaded"):
            self.alg.teacher_loaded = True
        self.current_learning_iteration = int(state.get("iter", 0))
        return state.get("infos")


class OldOnPolicyRunner(_OldRunner):
    """``OnPolicyRunner`` of rsl_rl 2 and 3."""


class OldDistillationRunner(_OldRunner):
    """``DistillationRunner`` of rsl_rl 2 and 3."""

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        if not self.alg.teacher_loaded:
            raise ConfigurationError(
                "There is no teacher to distil: the script loaded no checkpoint of one."
            )
        super().learn(num_learning_iterations, init_at_random_ep_len)


OldOnPolicyRunner.__name__ = "OnPolicyRunner"
OldDistillationRunner.__name__ = "DistillationRunner"


def offer() -> None:
    """Let scripts that import rsl_rl's runners get those of this module."""
    ours = {"OnPolicyRunner": OldOnPolicyRunner, "DistillationRunner": OldDistillationRunner}
    places = ("runners", "runners.on_policy_runner", "runners.distillation_runner")
    for place in places:
        module = importlib.import_module(f"rsl_rl.{place}")
        for name, kind in ours.items():
            if hasattr(module, name):
                setattr(module, name, kind)
