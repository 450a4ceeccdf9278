"""rsl_rl 1's ``OnPolicyRunner`` over the installed release, for code of Isaac Gym's years.

Both are imported as ``rsl_rl``. The interface is that of rsl_rl 1.0.2: ``OnPolicyRunner(env,
train_cfg, log_dir, device)`` with ``runner``, ``policy`` and ``algorithm`` in its configuration, an
environment that returns ``obs, privileged_obs, rewards, dones, infos``, and checkpoints with
``model_state_dict``, which either release's code can load.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import torch

from envlab.errors import CheckpointError, ConfigurationError
from envlab_bridge.agreement import check_configurations
from envlab_bridge.ranks import context

_POLICIES = ("ActorCritic", "ActorCriticRecurrent")
_OLD_ORDER = ("std", "actor", "critic", "memory_a", "memory_c")


def offer_rsl_rl_1(always: bool = False) -> None:
    """Replace ``rsl_rl.runners.OnPolicyRunner``; new configurations still get the installed one.

    Args:
        always: Whether configurations that do not look like rsl_rl 1's are refused.
    """
    if importlib.util.find_spec("rsl_rl") is None:
        return
    if importlib.util.find_spec("rsl_rl.models") is None:  # an old release is already installed
        return
    runners = importlib.import_module("rsl_rl.runners")
    installed = runners.OnPolicyRunner
    if getattr(installed, "is_of_rsl_rl_1", False):
        return
    setattr(runners, "OnPolicyRunner", _chooser(installed, always))  # noqa: B010


def _chooser(installed: type, always: bool) -> type:
    class OnPolicyRunner(RslRl1Runner):
        """rsl_rl 1's runner; with a configuration of rsl_rl 5, the installed release's."""

        def __new__(
            cls, env: Any, train_cfg: dict[str, Any], *arguments: Any, **keywords: Any
        ) -> Any:
            check_configurations(train_cfg=train_cfg, env_cfg=getattr(env, "cfg", None))
            if "runner" in train_cfg:
                return super().__new__(cls)
            if always:
                raise ConfigurationError(
                    "--rsl-rl-1 was given, but the runner's configuration has no 'runner'; it has "
                    f"{', '.join(train_cfg)}. Leave --rsl-rl-1 out."
                )
            return installed(env, train_cfg, *arguments, **keywords)

    return OnPolicyRunner


class RslRl1Runner:
    """rsl_rl 1.0.2's ``OnPolicyRunner``.

    Attributes:
        alg: PPO of the installed release; ``alg.actor_critic`` has rsl_rl 1's methods.
    """

    is_of_rsl_rl_1 = True

    def __init__(
        self,
        env: Any,
        train_cfg: dict[str, Any],
        log_dir: str | None = None,
        device: str = "cpu",
    ) -> None:
        self.cfg, self.env, self.device = train_cfg["runner"], env, device
        env.reset()
        self._runner = _runner(env, new_configuration(train_cfg, env), log_dir, device)
        self._runner.save = self.save
        self.alg = self._runner.alg
        self.alg.actor_critic = ActorCritic(self.alg)
        self.log_dir = log_dir

    @property
    def current_learning_iteration(self) -> int:
        """Number of iterations made."""
        return int(self._runner.current_learning_iteration)

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Make iterations, each a rollout and an update."""
        first = self._runner.current_learning_iteration
        self._runner.learn(num_learning_iterations, init_at_random_ep_len)
        self._runner.current_learning_iteration = first + num_learning_iterations
        if self.log_dir is not None and context().is_main:
            self.save(f"{self.log_dir}/model_{self.current_learning_iteration}.pt")

    def save(self, path: str, infos: Any = None) -> None:
        """Write a checkpoint with rsl_rl 1's names for weights."""
        state = {
            "model_state_dict": self.alg.actor_critic.state_dict(),
            "optimizer_state_dict": self._reordered(self.alg.optimizer.state_dict(), to_old=True),
            "iter": self._runner.current_learning_iteration,
            "infos": infos,
        }
        torch.save(state, path)

    def load(self, path: str, load_optimizer: bool = True) -> Any:
        """Read a checkpoint of rsl_rl 1; no code of the file is run.

        Raises:
            CheckpointError: If the file is none, or of another network.
        """
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.alg.actor_critic.load_state_dict(state["model_state_dict"])
        except (KeyError, OSError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} is not a checkpoint of this network as rsl_rl 1 writes it: {error}"
            ) from error
        if load_optimizer:
            moments = self._reordered(state["optimizer_state_dict"], to_old=False)
            self.alg.optimizer.load_state_dict(moments)
        self._runner.current_learning_iteration = int(state["iter"])
        return state["infos"]

    def _reordered(self, state: dict[str, Any], to_old: bool) -> dict[str, Any]:
        """Return an optimizer's state with its parameters in the other release's order.

        rsl_rl 1 lists the deviations, the layers of actor and critic, then their memories; rsl_rl 5
        lists all of the actor first.
        """
        new = [
            _old_name(name, key)
            for name, network in (("actor", self.alg.actor), ("critic", self.alg.critic))
            for key, _ in network.named_parameters()
        ]
        old = sorted(new, key=lambda name: _OLD_ORDER.index(name.split(".")[0]))
        places = [(old.index(name), index) for index, name in enumerate(new)]
        if to_old:
            places = [(index, place) for place, index in places]
        moments = state["state"]
        return state | {"state": {to: moments[from_] for from_, to in places if from_ in moments}}

    def get_inference_policy(
        self, device: str | None = None
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return a function from observations to the mean actions."""
        self.alg.eval_mode()
        if device is not None:
            self.alg.get_policy().to(device)
        inference: Callable[[torch.Tensor], torch.Tensor] = self.alg.actor_critic.act_inference
        return inference


class ActorCritic:
    """rsl_rl 1's view of both networks."""

    def __init__(self, alg: Any) -> None:
        self._alg = alg

    @property
    def is_recurrent(self) -> bool:
        """Whether the networks have a memory."""
        return bool(self._alg.actor.is_recurrent)

    @property
    def actor(self) -> torch.nn.Module:
        """The layers of the actor."""
        layers: torch.nn.Module = self._alg.actor.mlp
        return layers

    @property
    def critic(self) -> torch.nn.Module:
        """The layers of the critic."""
        layers: torch.nn.Module = self._alg.critic.mlp
        return layers

    @property
    def std(self) -> torch.Tensor:
        """Deviations of actions."""
        deviations: torch.Tensor = self._alg.actor.distribution.std_param
        return deviations

    def act_inference(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the means of actions."""
        means: torch.Tensor = self._alg.get_policy()(_packed(observations, None))
        return means

    def eval(self) -> ActorCritic:
        """Switch to evaluation."""
        self._alg.eval_mode()
        return self

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return weights under rsl_rl 1's names."""
        renamed = {}
        for name, network in (("actor", self._alg.actor), ("critic", self._alg.critic)):
            for key, value in network.state_dict().items():
                renamed[_old_name(name, key)] = value
        return renamed

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load weights under rsl_rl 1's names."""
        for name, network in (("actor", self._alg.actor), ("critic", self._alg.critic)):
            network.load_state_dict(
                {key: state[_old_name(name, key)] for key in network.state_dict()}
            )


def _old_name(network: str, key: str) -> str:
    """Return rsl_rl 1's name of a weight."""
    if key.startswith("distribution."):
        return "std"
    if key.startswith("rnn."):
        return key.replace("rnn.", f"memory_{network[0]}.", 1)
    return key.replace("mlp.", f"{network}.", 1)


def new_configuration(train_cfg: Mapping[str, Any], env: Any) -> dict[str, Any]:
    """Return rsl_rl 5's configuration for one of rsl_rl 1.

    Raises:
        ConfigurationError: If it names a policy or an algorithm that rsl_rl 1 does not have.
    """
    runner, policy = train_cfg["runner"], dict(train_cfg["policy"])
    kind, algorithm = runner["policy_class_name"], runner["algorithm_class_name"]
    if kind not in _POLICIES or algorithm != "PPO":
        raise ConfigurationError(
            f"The runner's configuration names the policy {kind!r} and the algorithm "
            f"{algorithm!r}, but only {', '.join(_POLICIES)} and 'PPO' can be offered over the "
            "installed rsl_rl. Install the project's own rsl_rl in a separate virtual environment, "
            "without its dependencies."
        )
    activation = policy.get("activation", "elu")
    model: dict[str, Any] = {"class_name": "MLPModel", "activation": activation}
    if kind == "ActorCriticRecurrent":
        model |= {
            "class_name": "RNNModel",
            "rnn_type": policy.get("rnn_type", "lstm"),
            "rnn_hidden_dim": policy.get("rnn_hidden_size", 256),
            "rnn_num_layers": policy.get("rnn_num_layers", 1),
        }
    noise = {
        "class_name": "GaussianDistribution",
        "init_std": policy.get("init_noise_std", 1.0),
        "std_type": "scalar",
    }
    layers = [256, 256, 256]
    actor = model | {"hidden_dims": policy.get("actor_hidden_dims", layers)}
    critic = model | {"hidden_dims": policy.get("critic_hidden_dims", layers)}
    is_asymmetric = env.num_privileged_obs is not None
    return {
        "num_steps_per_env": runner["num_steps_per_env"],
        "save_interval": runner["save_interval"],
        "obs_groups": {
            "actor": ["policy"],
            "critic": ["critic" if is_asymmetric else "policy"],
        },
        "actor": actor | {"distribution_cfg": noise},
        "critic": critic,
        "algorithm": {
            "class_name": "PPO",
            "rnd_cfg": None,
            "symmetry_cfg": None,
            **train_cfg["algorithm"],
        },
        "logger": "tensorboard",
        "check_for_nan": False,
    }


def _packed(obs: torch.Tensor, privileged: torch.Tensor | None) -> Any:
    from tensordict import TensorDict

    groups = {"policy": obs} if privileged is None else {"policy": obs, "critic": privileged}
    return TensorDict(groups, batch_size=[len(obs)])


def _runner(env: Any, cfg: dict[str, Any], log_dir: str | None, device: str) -> Any:
    """Return the installed release's runner, with the gradients and statistics of all ranks."""
    from envlab_bridge.rsl_rl import ScriptRunner

    runner = ScriptRunner(_environment(env), cfg, log_dir, device)
    runner.observation_names = {"policy": "observations", "critic": "privileged ones"}
    return runner


def _environment(env: Any) -> Any:
    """Return an environment of rsl_rl 1 for rsl_rl 5."""
    from rsl_rl.env import VecEnv

    class Environment(VecEnv):
        """Observations by group, and extras under their new names."""

        cfg = getattr(env, "cfg", None) or {}
        num_envs, num_actions = env.num_envs, env.num_actions
        max_episode_length, device = env.max_episode_length, env.device

        @property
        def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
            lengths: torch.Tensor = env.episode_length_buf
            return lengths

        @episode_length_buf.setter
        def episode_length_buf(self, values: torch.Tensor) -> None:
            env.episode_length_buf = values

        def get_observations(self) -> Any:
            return _packed(env.get_observations(), env.get_privileged_observations())

        def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict]:
            obs, privileged, rewards, dones, infos = env.step(actions)
            infos = dict(infos)
            # legged_gym keeps its time-out flags until another episode ends; each further step
            # would get the value of the next state again, which dominates all else if few end.
            if "time_outs" in infos:
                infos["time_outs"] = infos["time_outs"].bool() & dones.bool()
            return _packed(obs, privileged), rewards, dones, infos

    return Environment()
