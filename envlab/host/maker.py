"""Making one of Gymnasium's environments, with a one-sentence error if that fails."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from envlab.errors import ConfigurationError, EnvlabError

logger = logging.getLogger(__name__)

INSTALL = "pip install -c constraints.txt -e '.[gym]'"

_QUIET = {
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",  # pygame prints a greeting
    "SDL_VIDEODRIVER": "dummy",  # without a screen it reports "error: XDG_RUNTIME_DIR"
    "SDL_AUDIODRIVER": "dummy",
}
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, kw_only=True)
class EnvMaker:
    """Everything needed to make an environment, here or in another process."""

    spec: EnvSpec
    """The registration."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of the environment, over the registration's."""
    max_episode_steps: int | None = None
    """Time limit in steps; None: the registration's."""
    num_frames: int = 1
    """Observations of the last steps that are joined to one."""
    frame_padding: str = "reset"
    """The padding for steps before an episode: ``reset`` or ``zero``."""
    tells_index: bool = False
    """Whether each environment gets its global index, as the keyword ``index``."""

    def make(self, render_mode: str | None = None, index: int = 0) -> gymnasium.Env[Any, Any]:
        """Return a new environment.

        Args:
            render_mode: None or ``rgb_array``.
            index: Index of the environment, over all processes.

        Raises:
            ConfigurationError: If a package is missing, or it refuses its keywords.
        """
        _load(self.spec)
        told = {"index": index} if self.tells_index else {}
        try:
            env = gymnasium.make(
                self.spec,
                max_episode_steps=self.max_episode_steps,
                disable_env_checker=True,  # it costs time in every step
                render_mode=render_mode,
                **self.kwargs,
                **told,
            )
        except EnvlabError:
            raise
        except (DependencyNotInstalled, ImportError) as error:
            raise _not_imported(self.spec, error) from error
        except Exception as error:
            given = ", ".join(f"env.kwargs.{name}={value}" for name, value in self.kwargs.items())
            raise ConfigurationError(
                f"gym:{self.spec.id} cannot be made{f' with {given}' if given else ''} "
                f"({type(error).__name__}: {error}). Correct env.kwargs."
            ) from error
        if self.num_frames > 1:
            env = self._joined(env)
        known = env.metadata.get("render_modes") or []
        if render_mode is not None and render_mode not in known:
            raise ConfigurationError(
                f"gym:{self.spec.id} cannot render as {render_mode!r}, only as "
                f"{', '.join(known) or 'nothing'}. Leave --video out."
            )
        return env

    def _joined(self, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        """Return an environment that observes the last steps.

        Raises:
            ConfigurationError: If its observations are not vectors.
        """
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise ConfigurationError(
                f"env.num_frames is {self.num_frames}, but gym:{self.spec.id} observes {space}, "
                "and only vectors are joined. Set env.num_frames to 1."
            )
        frames = FrameStackObservation(env, self.num_frames, padding_type=self.frame_padding)
        return FlattenObservation(frames)


def known_kwargs(spec: EnvSpec) -> dict[str, Any]:
    """Return the keywords for which an environment has defaults, if they are plain values.

    Raises:
        ConfigurationError: If a package that it imports is missing.
    """
    creator = _load(spec)
    parameters = inspect.signature(creator).parameters.values() if creator is not None else []
    known = {
        parameter.name: _number(parameter.default, str(parameter.annotation))
        for parameter in parameters
        if parameter.name != "render_mode" and _is_plain(parameter.default)
    }
    return known | {name: value for name, value in spec.kwargs.items() if _is_plain(value)}


def _load(spec: EnvSpec) -> Any:
    """Import and return an environment's constructor, without output from its packages."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    creator: Any = spec.entry_point
    try:
        if isinstance(creator, str):
            creator = load_env_creator(creator)
    except (DependencyNotInstalled, ImportError) as error:
        raise _not_imported(spec, error) from error
    if "mujoco" in sys.modules:
        # Else each environment prints MuJoCo's warnings about its model, which is Gymnasium's.
        sys.modules["mujoco"].set_mju_user_warning(_warn_once)
    return creator


@functools.cache
def _warn_once(message: str) -> None:
    logger.warning("MuJoCo: %s", message.strip())


def _not_imported(spec: EnvSpec, error: Exception) -> ConfigurationError:
    """Return the error for a module that cannot be imported, or lacks a package."""
    reason = str(error.__cause__ or error).splitlines()[0].rstrip(".")
    if isinstance(error, DependencyNotInstalled | ModuleNotFoundError):
        return ConfigurationError(
            f"gym:{spec.id} needs a package that is not installed ({reason}). For Gymnasium's own "
            f"environments install it with: {INSTALL}"
        )
    return ConfigurationError(
        f"gym:{spec.id} cannot be imported ({reason}). Choose another version of it, or repair its "
        "package."
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(element) for element in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    return isinstance(value, _PLAIN)


def _number(value: Any, annotation: str) -> Any:
    """Return a default with the annotated type: some floats are written as 0 or 2."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_whole and "float" in annotation else value
