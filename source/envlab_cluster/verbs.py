"""``envlab cluster VERB``: the verbs, each loaded on use."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from envlab.errors import ConfigurationError, did_you_mean

VERBS = {
    "setup": "run a configuration script on every host",
    "launch": "start one training on all hosts",
    "status": "the state of a run, by host and rank",
    "command": "run a shell command on all hosts",
    "kill": "end a run on all hosts",
    "slurm": "write or submit a job for Slurm",
    "trainjob": "write or submit a TrainJob for Kubernetes",
    "sky": "write or start a job of SkyPilot on a cloud",
}

USAGE = """usage: envlab cluster VERB ...

{verbs}

Each verb has --help with an example, and --dry_run.
Example:
  envlab cluster setup --runs_on a,b --wait
  envlab cluster launch --runs_on a,b rsl_rl --task=Isaac-Cartpole-v0""".format(
    verbs="\n".join(f"  {verb:<10}{what}" for verb, what in VERBS.items())
)


def main(arguments: Sequence[str]) -> int:
    """Run a verb; return its exit code."""
    verb, *rest = list(arguments) or ["--help"]
    if verb in ("-h", "--help"):
        print(USAGE)
        return 0
    if verb not in VERBS:
        raise ConfigurationError(
            f"There is no verb {verb!r}; there are {', '.join(VERBS)}.{did_you_mean(verb, VERBS)}"
        )
    return importlib.import_module(f"envlab_cluster.{verb}").main(rest)
