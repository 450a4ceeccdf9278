"""``envlab config``: the configuration that a training would start with, as YAML."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.config import Override, merge, to_dict, yaml_text
from envlab.distributed.program import configure_logging
from envlab.libraries import Library
from envlab.training.flags import Flags
from envlab.training.inputs import given_config
from envlab.training.plan import RunPlan, plan_run


def run_config(library: Library, flags: Flags, overrides: Sequence[Override]) -> int:
    """Print the composed configuration, which ``--config`` accepts, and return 0.

    Raises:
        EnvlabError: For anything wrong in flags, overrides or files.
    """
    configure_logging(verbose=flags.verbose)
    print(config_text(plan_run(flags, overrides, library, given_config(flags))), end="")
    return 0


def config_text(plan: RunPlan) -> str:
    """Return the text of ``envlab config``."""
    env_cfg, library = plan.env_cfg, plan.library.name
    if plan.flags.num_envs is not None:
        env_cfg = merge(env_cfg, {"scene": {"num_envs": plan.flags.num_envs}}, "env")
    origin = "".join(f" --{name}={value}" for name, value in plan.agent_cfg.origin.items())
    values = {
        "task": plan.task.id,
        "library": library,
        **{root: to_dict(cfg, root) for root, cfg in (plan.configs | {"env": env_cfg}).items()},
    }
    return (
        f"# To train with it: envlab train {library} --task={plan.task.id}{origin} "
        f"--config=THIS_FILE\n{yaml_text(values, '')}"
    )
