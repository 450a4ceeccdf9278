"""Navigation's backends, behind one configuration."""

from __future__ import annotations

from typing import Any

from envlab.envs import BatchedEnv
from envlab.envs.checks import registered_cfg
from envlab_navigation.nav_cfg import NavEnvCfg


def make_nav_env(
    cfg: NavEnvCfg | None = None, *, env_cfg_entry_point: str | None = None, **kwargs: Any
) -> BatchedEnv:
    """Return the environment of a configuration, in the backend that ``env.backend`` names.

    The arguments are those of :class:`BatchedEnv`.

    Raises:
        ConfigurationError: For a value that makes no environment.
    """
    names = ("context", "num_envs", "device", "seed", "render_mode")
    own = {name: value for name, value in kwargs.items() if name in names}
    rest = {name: value for name, value in kwargs.items() if name not in names}
    cfg = registered_cfg(cfg, env_cfg_entry_point, rest)
    if cfg.backend == "ai2thor":
        from envlab_navigation.thor_env import ThorNavEnv

        return ThorNavEnv(cfg, **own)
    from envlab_navigation.nav_env import NavEnv

    return NavEnv(cfg, **own)
