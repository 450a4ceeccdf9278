"""Atari's games as SLM-Lab prepares them: stacks of four small frames, by Gymnasium's wrappers.

Importing this registers ``SLM-Lab/<game>-v5`` for each ``ALE/<game>-v5`` of ale-py, which must be
installed. SLM-Lab 4.3 and 5 leave this to ale-py's ``AtariVectorEnv``, whose defaults these
wrappers have.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from envlab.errors import ConfigurationError

GAMES = "ALE/"
"""Prefix of games' names."""
STACK = 4
"""Frames in an observation."""
FRAME_SKIP = 4
"""Frames for which an action is repeated."""
_OLD_NAME = re.compile(r"([A-Z]\w*?)(?:-ram)?(?:NoFrameskip|Deterministic)-v[04]")


def modern_name(name: str) -> str | None:
    """Return the name since ale-py 0.7 of a game such as Gym's ``PongNoFrameskip-v4``; else None.

    ``Pong-v0`` and ``Pong-v4`` are such names too, where ale-py is installed and knows the game.
    """
    if found := _OLD_NAME.fullmatch(name):
        return f"{GAMES}{found[1]}-v5"
    game = re.fullmatch(r"([A-Z]\w*)-v[04]", name)
    is_known = game is not None and has_ale() and f"{GAMES}{game[1]}-v5" in gymnasium.registry
    return f"{GAMES}{game[1]}-v5" if game is not None and is_known else None


def has_ale() -> bool:
    """Return whether ale-py is installed; then its games are registered."""
    try:
        import ale_py  # it registers its games
        import cv2  # noqa: F401 - AtariPreprocessing needs it
    except ImportError:
        return False
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # it greets on stderr
    return True


def task_of(name: str) -> str:
    """Return the task's id for a game.

    Raises:
        ConfigurationError: If ale-py is not installed, or has no such game.
    """
    if not has_ale():
        raise ConfigurationError(
            f"env.name is {name!r}, which needs ale-py. Install the extra: pip install "
            "-c constraints.txt -e '.[atari]'."
        )
    return f"gym:{__name__}:{name.replace('ALE/', 'SLM-Lab/', 1)}"


def make_game(
    game: str,
    life_loss_info: bool = False,
    repeat_action_probability: float = 0.25,
    noop_max: int = 30,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Return a game whose observations are uint8 ``(4, 84, 84)``, the newest frame last.

    Args:
        game: Its id, ``ALE/<game>-v5``.
        life_loss_info: Whether an episode is a life; the game continues with the next one.
        repeat_action_probability: Probability, in each frame, that the last action is repeated.
        noop_max: Most frames without an action after a reset.
        render_mode: None or ``rgb_array``.
    """
    env: Any = gymnasium.make(
        game,
        frameskip=1,  # AtariPreprocessing skips
        repeat_action_probability=repeat_action_probability,
        render_mode=render_mode,
        disable_env_checker=True,
    )
    env = FireOnReset(AtariPreprocessing(env, noop_max=noop_max, frame_skip=FRAME_SKIP))
    env = FrameStackObservation(env, STACK, padding_type="zero")
    return EndOfLife(env) if life_loss_info else env


class FireOnReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses the fire button in games that wait for it (Mnih et al. 2015)."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Look for the button."""
        super().__init__(env)
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        self._fire = meanings.index("FIRE") if "FIRE" in meanings else None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start a game."""
        found: tuple[Any, dict[str, Any]] = super().reset(**options)
        if self._fire is None:
            return found
        observation, _, terminated, truncated, info = self.env.step(self._fire)
        return super().reset(**options) if terminated or truncated else (observation, info)


class EndOfLife(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life; only the last one's end starts a new game.

    Gymnasium's ``terminal_on_life_loss`` starts a new game at each, so that a policy would see
    only first lives.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Start without a running game."""
        super().__init__(env)
        self._lives, self._observation, self._is_over = 0, None, True

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, which terminates where a life is lost."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._is_over = terminated or truncated
        lives = self._count()
        is_lost, self._lives, self._observation = lives < self._lives, lives, observation
        return observation, reward, terminated or is_lost, truncated, info

    def reset(self, *, seed: int | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Continue with the next life; a seed, or the end of all lives, starts a new game."""
        if seed is None and not self._is_over:
            return self._observation, {}
        observation, info = self.env.reset(seed=seed, **options)
        self._lives, self._is_over = self._count(), False
        return observation, info

    def _count(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]


def _register() -> None:
    for game in [name for name in gymnasium.registry if name.startswith(GAMES)]:
        gymnasium.register(
            id=game.replace(GAMES, "SLM-Lab/", 1),
            entry_point=f"{__name__}:make_game",
            kwargs={"game": game},
        )


if has_ale():
    _register()
