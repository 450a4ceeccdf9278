"""Makes :mod:`envlab_isaacgym` importable as ``isaacgym``, if the real package is missing."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from envlab.errors import ConfigurationError

MODULES = ("gymapi", "gymtorch", "gymutil", "rlgpu", "terrain_utils", "torch_utils")
"""Modules of ``isaacgym``."""

_NUMPY_NAMES = {
    "bool": bool,
    "bool8": np.bool_,
    "complex": complex,
    "float": float,
    "float_": np.float64,
    "Inf": np.inf,
    "Infinity": np.inf,
    "infty": np.inf,
    "int": int,
    "NaN": np.nan,
    "object": object,
    "product": np.prod,
    "str": str,
    "unicode_": np.str_,
}
"""Names that numpy 1.24 and 2.0 removed, and task code of 2021 to 2023 uses."""


ABSENT = {"pysdf": "SDF", "urdfpy": "URDF"}
"""Modules that few tasks need, and the names imported from them."""
_NO_PICTURES = ("torchvision", "torchvision.transforms")
"""Modules of which tasks import all, and use few: any name of theirs raises an error on use."""
STAND_INS = ("isaacgym", "gym", "torchvision", *ABSENT)
"""Packages that the launcher replaces if they are not installed."""


def install() -> None:
    """Let ``import isaacgym`` find this package, in this process.

    Raises:
        ConfigurationError: If Isaac Gym itself can be imported.
    """
    if is_installed():
        return
    found = importlib.util.find_spec("isaacgym") if "isaacgym" not in sys.modules else None
    # A mere folder of that name, as beside CleanRL's script, has no origin.
    if "isaacgym" in sys.modules or (found is not None and found.origin is not None):
        raise ConfigurationError(
            "Isaac Gym itself can be imported in this interpreter, so envlab does not replace it. "
            "Run the script with python alone, or uninstall isaacgym."
        )
    package = types.ModuleType("isaacgym", "Isaac Gym's interface on envlab's simulators.")
    package.__path__ = []
    package.__spec__ = importlib.util.spec_from_loader("isaacgym", loader=None, is_package=True)
    sys.modules["isaacgym"] = package
    for name in MODULES:
        module = importlib.import_module(f"envlab_isaacgym.{name}")
        setattr(package, name, module)
        sys.modules[f"isaacgym.{name}"] = module


def is_installed() -> bool:
    """Return whether ``isaacgym`` is this package."""
    module = sys.modules.get("isaacgym.gymapi")
    return module is not None and module.__name__ == "envlab_isaacgym.gymapi"


def offer_gym() -> None:
    """Let ``import gym`` find gymnasium if gym is missing; only the launcher calls this."""
    if importlib.util.find_spec("gym") is not None:
        return
    for name in ("", ".core", ".spaces", ".utils", ".utils.seeding", ".vector", ".wrappers"):
        sys.modules[f"gym{name}"] = importlib.import_module(f"gymnasium{name}")
    for name in ("gym", "gym.core"):
        sys.modules[name] = _with_old_wrapper(sys.modules[name])


def _with_old_wrapper(module: types.ModuleType) -> types.ModuleType:
    """Return a copy of a module of gymnasium in which wrappers are as in gym 0.23."""

    class Wrapper(module.Wrapper):  # type: ignore[misc, name-defined]
        """Has the wrapped object's attributes, and passes on only given arguments."""

        def __init__(self, env: Any) -> None:
            """Take any object, as Isaac Gym's tasks are no environments of gym's."""
            if isinstance(env, module.Env):
                super().__init__(env)
                return
            self.env = env
            self._action_space = self._observation_space = self._metadata = None
            self._cached_spec = None

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name == "env":
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return getattr(self.env, name)

        def reset(self, **keywords: Any) -> Any:
            return self.env.reset(**keywords)

        def render(self, *arguments: Any, **keywords: Any) -> Any:
            return self.env.render(*arguments, **keywords)

    class ObservationWrapper(Wrapper):
        """Changes observations, of tasks that return them alone or with infos."""

        def reset(self, **keywords: Any) -> Any:
            found = self.env.reset(**keywords)
            if isinstance(found, tuple):
                return (self.observation(found[0]), *found[1:])
            return self.observation(found)

        def step(self, action: Any) -> Any:
            observation, *rest = self.env.step(action)
            return (self.observation(observation), *rest)

    copied = types.ModuleType(module.__name__, module.__doc__)
    vars(copied).update(vars(module), Wrapper=Wrapper, ObservationWrapper=ObservationWrapper)
    return copied


def offer_absent() -> None:
    """Let all of IsaacGymEnvs' tasks be imported without modules that only two of them need.

    Only the launcher calls this. Names from such a module raise an error on use.
    """
    for module, name in ABSENT.items():
        if module not in sys.modules and importlib.util.find_spec(module) is None:
            sys.modules[module] = types.ModuleType(module)
            setattr(sys.modules[module], name, _absent(module))
    if "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None:
        for module in _NO_PICTURES:
            made = types.ModuleType(module)
            made.__path__ = []
            made.__getattr__ = _names_of  # type: ignore[method-assign]
            sys.modules[module] = made
        sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]  # type: ignore[attr-defined]


def _names_of(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _absent("torchvision")


def _absent(module: str) -> Callable[..., NoReturn]:
    def tell(*arguments: Any, **keywords: Any) -> NoReturn:
        raise ConfigurationError(f"The script needs {module}, which is not installed.")

    return tell


def take_numbers_for_conditions() -> None:
    """Let ``torch.where`` take conditions of numbers, as it once did; only the launcher calls it.

    TorchScript supports torch's own function alone, so this needs ``PYTORCH_JIT=0``.
    """
    if os.environ.get("PYTORCH_JIT") != "0":
        return
    where = torch.where

    @functools.wraps(where)
    def taking_numbers(condition: Any, *arguments: Any, **keywords: Any) -> Any:
        is_number = isinstance(condition, torch.Tensor) and condition.dtype != torch.bool
        return where(condition.bool() if is_number else condition, *arguments, **keywords)

    torch.where = taking_numbers


def take_numpy_sizes() -> None:
    """Let recurrent layers take numpy's whole numbers as sizes, as older torch did.

    Only the launcher calls this.
    """
    make: Callable[..., None] = torch.nn.RNNBase.__init__

    @functools.wraps(make)
    def taking_numpy(self: Any, *arguments: Any, **keywords: Any) -> None:
        plain = [int(one) if isinstance(one, np.integer) else one for one in arguments]
        named = {
            name: int(one) if isinstance(one, np.integer) else one for name, one in keywords.items()
        }
        make(self, *plain, **named)

    torch.nn.RNNBase.__init__ = taking_numpy  # type: ignore[method-assign]


def draw_without_display() -> None:
    """Let ``matplotlib.use("TkAgg")`` draw into files where there is no display.

    Only the launcher calls this.
    """
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if has_display or importlib.util.find_spec("matplotlib") is None:
        return
    import matplotlib

    use = matplotlib.use

    @functools.wraps(use)
    def using(backend: str, *arguments: Any, **keywords: Any) -> None:
        is_window = backend.lower().startswith(("tk", "qt", "gtk", "wx", "macosx"))
        use("agg" if is_window else backend, *arguments, **keywords)

    matplotlib.use = using
    matplotlib.rcParams["backend"] = "agg"


def restore_seq_len() -> None:
    """Give rl_games' agents ``seq_len``, as until 1.6.0; only the launcher calls this."""
    if importlib.util.find_spec("rl_games") is not None:
        agent = importlib.import_module("rl_games.common.a2c_common").A2CBase
        if not hasattr(agent, "seq_len"):
            # Older releases set it on the agent, which hides this.
            agent.seq_len = _Renamed("seq_length")


class _Renamed:
    """An attribute under its old name, unless an object has that name itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type) -> Any:
        return self if owner is None else getattr(owner, self._name)


def restore_numpy_names() -> None:
    """Restore ``np.float`` and the like; only the launcher calls this."""
    for name, value in _NUMPY_NAMES.items():
        if name not in vars(np):
            setattr(np, name, value)
