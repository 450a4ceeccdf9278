"""``envlab config``: the configuration that a training would start with, as YAML."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.config import Override, merge, to_dict, yaml_text
from envlab.distributed.log import configure_logging
from envlab.libraries import Library
from envlab.training.flag_checks import given_config
from envlab.training.flags import Flags
from envlab.training.session import Session, compose_session


def run_config(library: Library, flags: Flags, overrides: Sequence[Override]) -> int:
    """Print the composed configuration, which ``--config`` accepts, and return 0.

    Raises:
        EnvlabError: For anything wrong in flags, overrides or files.
    """
    configure_logging(verbose=flags.verbose)
    print(config_text(compose_session(flags, overrides, library, given_config(flags))), end="")
    return 0


def config_text(session: Session) -> str:
    """Return the text of ``envlab config``."""
    env_cfg, library = session.env_cfg, session.library.name
    if session.flags.num_envs is not None:
        env_cfg = merge(env_cfg, {"scene": {"num_envs": session.flags.num_envs}}, "env")
    origin = "".join(f" --{name}={value}" for name, value in session.agent_cfg.origin.items())
    values = {
        "task": session.task.id,
        "library": library,
        "env": to_dict(env_cfg, "env"),
        "agent": to_dict(session.agent_cfg, "agent"),
    }
    if session.population_cfg.size:
        values["population"] = to_dict(session.population_cfg, "population")
    return (
        f"# To train with it: envlab train {library} --task={session.task.id}{origin} "
        f"--config=THIS_FILE\n{yaml_text(values, '')}"
    )
