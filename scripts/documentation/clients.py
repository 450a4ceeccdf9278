"""Try what others wrote for Gymnasium on the numpy ids, and write the table in docs/wrappers.md.

Every check runs the other project's own code, and fails with it::

    git clone https://github.com/vwxyzjn/cleanrl
    python scripts/documentation/clients.py --cleanrl cleanrl

Needs the extra [test]. CleanRL's files are run as they are, in processes with the packages that
CleanRL pins, which pip installs into a scratch folder. The table is that of one run: it has no row
for a client that is not installed, nor for CleanRL's files without ``--cleanrl``. A run of some of
the checks, by ``--only``, leaves the table as it was.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers import vector

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/wrappers.md"
BEGIN = "<!-- Written by scripts/documentation/clients.py: the table of clients -->"
END = "<!-- End of the table of clients -->"
MODULE = "envlab_tasks:"
CARTPOLE = f"{MODULE}numpy/Isaac-Cartpole-v0"
ANT = f"{MODULE}numpy/Isaac-Ant-v0"
SHOWCASE = f"{MODULE}numpy/Isaac-Cartpole-Showcase-Box-{{}}-Direct-v0"
KINDS = {
    "a manager-based task": ANT,
    "a direct one": f"{MODULE}numpy/Isaac-Ant-Direct-v0",
    "choices": SHOWCASE.format("Discrete"),
    "several choices": SHOWCASE.format("MultiDiscrete"),
    "images": f"{MODULE}numpy/Isaac-Cartpole-Depth-Camera-Direct-v0",
    "several agents as one": f"{MODULE}numpy/Isaac-Cart-Double-Pendulum-Direct-v0",
}
"""By what is special about them, ids that clients' checks look at."""
NOT_FOR_NUMPY = {"JaxToNumpy", "JaxToTorch"}
"""Gymnasium's wrappers of environments in JAX."""
FOR_PICTURES = {"GrayscaleObservation", "ResizeObservation"}
RENDER = {"RecordVideo", "HumanRendering"}
TO_TORCH = {"ArrayConversion", "NumpyToTorch"}
WRAPPERS = "all its vector wrappers, but those of environments in JAX"
WRAPPERS_NEED = ("array_api_compat", "cv2", "moviepy", "pygame")
PINNED = ("gymnasium==0.29.1", "tyro", "docstring_parser", "typeguard", "shtab", "rich")
"""What CleanRL's files import besides torch and tensorboard, and its version of Gymnasium."""
CLEANRL = {"ppo": 200_000, "rpo": 4_096, "ddpg": 3_000, "td3": 3_000, "sac": 3_000}
"""CleanRL's files for continuous control, and steps to make with each."""
LEARNING = ("ppo", "PPO")
"""Those that must solve Cartpole in these steps."""
SOLVED = 4.5
"""A mean return of Cartpole's that no policy reaches by chance; 5 is the limit of its reward."""


class Check(NamedTuple):
    """A row of the table."""

    client: str
    package: str
    """Whose version the row names."""
    tried: str
    run: Callable[[], str]
    """Returns what came out, or raises."""
    needs: tuple[str, ...] = ()
    """Other packages, without which it cannot be run."""


class Mirror(torch.nn.Module):  # type: ignore[misc]
    """A policy as Gymnasium's wrappers that compute want one: what goes in comes out."""

    def forward(self, values: Any) -> Any:
        return values


def main(words: Sequence[str]) -> int:
    """Run the checks, and write the table of all; 1 if one fails."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cleanrl", type=Path, help="a checkout of CleanRL")
    parser.add_argument(
        "--only", default="", help="run the checks whose row contains this word, and write no table"
    )
    flags = parser.parse_args(words)
    if flags.cleanrl is not None and not (flags.cleanrl / "cleanrl").is_dir():
        raise ConfigurationError(
            f"--cleanrl is {flags.cleanrl}, but there is no folder cleanrl in it. Give a checkout "
            "of CleanRL: git clone https://github.com/vwxyzjn/cleanrl"
        )
    rows: list[str] = []
    failed = 0
    for check in checks(flags.cleanrl):
        key = f"{check.client} | {check.tried}"
        is_possible = all(is_installed(one) for one in (check.package, *check.needs))
        if flags.only.lower() not in key.lower() or not is_possible:
            print(f"skip  {key}", flush=True)
            continue
        start = time.monotonic()
        try:
            with quiet():
                result = check.run()
        except Exception as error:  # another project's, of any kind
            failed += 1
            result = f"fails: {type(error).__name__}: {error}".partition("\n")[0]
        print(f"{result}  {key}  ({time.monotonic() - start:.0f} s)", flush=True)
        named = version(check.package, flags.cleanrl)
        rows.append(f"| {check.client} | {named} | {check.tried} | {result} |")
    if not flags.only:
        PAGE.write_text(with_rows(PAGE.read_text(), rows))
    return 1 if failed else 0


def checks(cleanrl: Path | None) -> list[Check]:
    """Return all checks; CleanRL's only with its checkout."""
    ours = [
        Check("Gymnasium", "gymnasium", f"`check_env` on {len(KINDS)} kinds of tasks", gym_check),
        Check("Gymnasium", "gymnasium", WRAPPERS, all_wrappers, WRAPPERS_NEED),
        Check("Gymnasium", "gymnasium", "`SyncVectorEnv` and `AsyncVectorEnv`", gym_vectors),
        Check(
            "Stable-Baselines3",
            "stable_baselines3",
            f"`check_env` on {len(KINDS)} kinds of tasks",
            sb3_check,
        ),
        Check(
            "Stable-Baselines3",
            "stable_baselines3",
            "PPO, `make_vec_env(id, n_envs=8)`, Cartpole, 60,000 steps",
            partial(sb3_learn, "PPO", 60_000, 8),
        ),
        Check(
            "Stable-Baselines3",
            "stable_baselines3",
            "SAC, `make_vec_env(id, n_envs=4)`, Cartpole, 20,000 steps",
            partial(sb3_learn, "SAC", 20_000, 4),
        ),
        Check("TorchRL", "torchrl", "`check_env_specs(GymEnv(id))`, rollouts", torchrl_env),
        Check("TorchRL", "torchrl", '`GymWrapper(make_vec(id, ..., "SameStep"))`', torchrl_batch),
        Check("LeRobot", "lerobot", "`rollout` of its evaluation, a batch of 4", lerobot_rollout),
    ]
    if cleanrl is None:
        return ours
    return [
        *ours,
        *(
            Check(
                "CleanRL",
                "",
                f"`{name}_continuous_action.py`, Cartpole, {steps:,} steps",
                partial(run_cleanrl, cleanrl, name, steps),
            )
            for name, steps in CLEANRL.items()
        ),
    ]


# Gymnasium -------------------------------------------------------------------------------------


def gym_check() -> str:
    """Run Gymnasium's own check."""
    from gymnasium.utils.env_checker import check_env

    for name in KINDS.values():
        check_env(gymnasium.make(name).unwrapped)
    return "passes"


def all_wrappers() -> str:
    """Step each vector wrapper of Gymnasium's."""
    names = sorted(set(vector.__all__) - NOT_FOR_NUMPY)
    for name in names:
        try:
            try_wrapper(name)
        except Exception as error:
            raise RuntimeError(f"{name}: {error}") from error
    return f"all {len(names)} step"


def try_wrapper(name: str, num_steps: int = 30) -> None:
    """Step one vector wrapper of Gymnasium's over ends of episodes, in each mode that it accepts.

    Raises:
        Exception: The wrapper's error.
    """
    # Those to torch also fail on final_obs of Gymnasium's own vector environments.
    for mode in ("NextStep",) if name in TO_TORCH else ("NextStep", "SameStep"):
        with tempfile.TemporaryDirectory() as folder:
            env = short_episodes(name, mode)
            try:
                env = wrapped(name, env, folder)
            except ValueError as refusal:
                if mode == "SameStep" and "autoreset_mode" in str(refusal):
                    continue
                raise
            env.reset(seed=1)
            for _ in range(num_steps):
                action = env.action_space.sample()
                env.step(torch.as_tensor(action) if name in TO_TORCH else action)
            env.close()


def short_episodes(name: str, mode: str = "NextStep") -> Any:
    """Return four environments, whose episodes have nine steps, as a wrapper wants them."""
    from envlab.registry import get_task, load_env_cfg

    task = "Nav-PointNav-RGB-v0" if name in FOR_PICTURES else "Isaac-Cartpole-v0"
    kwargs: dict[str, Any] = {"observe": "rgb"} if name in FOR_PICTURES else {}
    if name == "FilterObservation":
        kwargs["observe"] = ["policy"]
    if name in RENDER:
        kwargs["render_mode"] = "rgb_array"
    cfg = load_env_cfg(get_task(task))
    if hasattr(cfg, "episode_length_s"):
        cfg.episode_length_s = 9 * cfg.step_dt
    return gymnasium.make_vec(
        f"numpy/{task}", num_envs=4, cfg=cfg, device="cpu", seed=0, autoreset_mode=mode, **kwargs
    )


def wrapped(name: str, env: Any, folder: str) -> Any:
    """Return an environment in a vector wrapper of Gymnasium's, by its name."""
    from gymnasium import wrappers

    same: Callable[[Any], Any] = Mirror()
    seen, acts = env.single_observation_space, env.single_action_space
    wrapper = getattr(vector, name)
    arguments: Mapping[str, Callable[[], Any]] = {
        "VectorizeTransformObservation": lambda: wrapper(
            env, wrappers.TransformObservation, func=same, observation_space=seen
        ),
        "VectorizeTransformAction": lambda: wrapper(
            env, wrappers.TransformAction, func=same, action_space=acts
        ),
        "VectorizeTransformReward": lambda: wrapper(env, wrappers.TransformReward, func=same),
        "TransformObservation": lambda: wrapper(env, func=same, single_observation_space=seen),
        "TransformAction": lambda: wrapper(env, func=same),
        "TransformReward": lambda: wrapper(env, func=same),
        "FilterObservation": lambda: wrapper(env, filter_keys=["policy"]),
        "ResizeObservation": lambda: wrapper(env, shape=(32, 32)),
        "ReshapeObservation": lambda: wrapper(env, shape=(2, 2)),
        "RescaleObservation": lambda: wrapper(
            env,
            min_obs=np.full(seen.shape, -np.inf, np.float32),
            max_obs=np.full(seen.shape, np.inf, np.float32),
        ),
        "DtypeObservation": lambda: wrapper(env, dtype=np.float64),
        "RescaleAction": lambda: wrapper(env, min_action=-2.0, max_action=2.0),
        "ClipReward": lambda: wrapper(env, min_reward=-0.5, max_reward=0.5),
        "RecordVideo": lambda: wrapper(
            env, folder, episode_trigger=lambda _: True, disable_logger=True
        ),
        "ArrayConversion": lambda: wrapper(env, env_xp=np, target_xp=torch),
    }
    return arguments.get(name, lambda: wrapper(env))()


def gym_vectors() -> str:
    """Step batches that Gymnasium makes of single environments."""
    for kind in (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv):
        env = kind([partial(gymnasium.make, CARTPOLE)] * 2)
        env.reset(seed=1)
        for _ in range(310):
            env.step(env.action_space.sample())
        env.close()
    return "step"


# Stable-Baselines3, TorchRL, LeRobot -----------------------------------------------------------


def sb3_check() -> str:
    """Run Stable-Baselines3's own check; a warning fails it."""
    from stable_baselines3.common.env_checker import check_env

    for name in KINDS.values():
        check_env(gymnasium.make(name))
    return "passes"


def sb3_learn(algorithm: str, num_steps: int, num_envs: int) -> str:
    """Train Cartpole with Stable-Baselines3's own loop, as its users write it."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    env = make_vec_env(CARTPOLE, n_envs=num_envs, seed=1)
    own: dict[str, Any] = {"n_steps": 256}
    if algorithm == "SAC":  # whose entropy outweighs rewards of a sixtieth a step
        own = {"ent_coef": 0.001, "learning_rate": 1e-3, "learning_starts": 1000}
    agent = getattr(stable_baselines3, algorithm)("MlpPolicy", env, seed=1, device="cpu", **own)
    returns: list[float] = []

    def note(known: Mapping[str, Any], _: Any) -> bool:
        returns.extend(info["episode"]["r"] for info in known["infos"] if "episode" in info)
        return True

    agent.learn(num_steps, callback=note)
    env.close()
    return learned(returns, SOLVED if algorithm in LEARNING else None)


def learned(returns: Sequence[float], least: float | None) -> str:
    """Say how the returns of Cartpole's episodes grew, which they must, to ``least`` at least."""
    first, last = (statistics.fmean(part) for part in (returns[:20], returns[-20:]))
    if last < (first if least is None else least):
        raise AssertionError(f"the first 20 episodes return {first:.2f}, the last 20 {last:.2f}")
    return f"returns {first:.2f}, then {last:.2f} of 5"


def torchrl_env() -> str:
    """Run TorchRL's check on its own wrapper of one environment."""
    from torchrl.envs import GymEnv
    from torchrl.envs.utils import check_env_specs

    env = GymEnv(CARTPOLE)
    check_env_specs(env)
    assert env.rollout(310, break_when_any_done=False)["next", "done"].any()
    return "passes"


def torchrl_batch() -> str:
    """Run it on a batch; TorchRL accepts no reset in the next step."""
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import check_env_specs

    env = GymWrapper(gymnasium.make_vec(CARTPOLE, num_envs=4, autoreset_mode="SameStep"))
    check_env_specs(env)
    assert env.rollout(310, break_when_any_done=False)["next", "done"].any()
    return "passes"


def lerobot_rollout() -> str:
    """Run LeRobot's own rollout over the environment that envlab gives it."""
    from lerobot.scripts.lerobot_eval import rollout

    import lerobot_env_envlab

    class Idle(torch.nn.Module):  # type: ignore[misc]
        def reset(self) -> None: ...

        def select_action(self, obs: Any) -> torch.Tensor:
            return torch.zeros(4, 8)

    env = lerobot_env_envlab.make_env(4, task="Isaac-Ant-v0", obs_type="state")["envlab"][0]
    same = Mirror()
    rollout(env, Idle(), same, same, same, same, seeds=[1, 2, 3, 4])
    return "runs to the end"


# CleanRL ---------------------------------------------------------------------------------------


def run_cleanrl(checkout: Path, name: str, num_steps: int) -> str:
    """Run a file of CleanRL's as it is, with the id alone given."""
    folder = Path(tempfile.mkdtemp(prefix="cleanrl_"))
    packages = install_pinned()
    words = [f"--env-id={CARTPOLE}", f"--total-timesteps={num_steps}", "--no-cuda"]
    if name in ("ddpg", "td3", "sac"):
        words.append("--learning-starts=1000")
    paths = [packages, checkout.resolve(), ROOT, ROOT / "source"]
    done = subprocess.run(
        [sys.executable, checkout.resolve() / f"cleanrl/{name}_continuous_action.py", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    returns = [float(one) for one in re.findall(r"episodic_return=\[?([-\d.e]+)", done.stdout)]
    if not returns:
        raise AssertionError("it prints no returns")
    if name in LEARNING:
        return learned(returns, SOLVED)
    return f"trains, and prints {len(returns)} returns"


def install_pinned() -> Path:
    """Return a folder with the packages that CleanRL pins, made once."""
    folder = Path(tempfile.gettempdir()) / f"envlab_cleanrl_{os.getuid()}"
    if not (folder / "tyro").is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        more = ("markdown-it-py", "mdurl", "pygments", "farama-notifications")
        subprocess.run([*install, folder, *PINNED, *more], check=True)
    return folder


# The table -------------------------------------------------------------------------------------


def version(package: str, cleanrl: Path | None) -> str:
    """Return the version of a client; of CleanRL, which is no package, the commit."""
    if package:
        return importlib.metadata.version(package)
    words = ["git", "-C", str(cleanrl), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; CleanRL is none."""
    return not package or importlib.util.find_spec(package) is not None


@contextlib.contextmanager
def quiet() -> Any:
    """Leave out the warnings of clients: that observations have no bounds, and such."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # HumanRendering's window
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def with_rows(page: str, rows: Sequence[str]) -> str:
    """Return the page with these rows as its table."""
    before, _, rest = page.partition(BEGIN)
    lines = [
        BEGIN,
        "",
        "| | version | test | |",
        "|---|---|---|---|",
        *sorted(rows),
    ]
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
