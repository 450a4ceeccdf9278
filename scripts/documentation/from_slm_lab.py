"""Write into docs/from_slm_lab.md the table of SLM-Lab's specs and their status.

Each spec of the checkouts is read, and its environment and agent made; with ``--train`` they train
until all that learns has changed, with two environments at most. It takes the folders of checkouts
of SLM-Lab's repository, whose names head the columns, and fetches nothing::

    git -C ~/SLM-Lab worktree add ~/v3.2.1 v3.2.1
    python scripts/documentation/from_slm_lab.py --train ~/v3.2.1 ~/v4.3.0
"""

from __future__ import annotations

import collections
import functools
import json
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import envlab
from envlab.arguments import ArgumentParser
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError, EnvlabError
from envlab_bridge import outcomes
from envlab_populations.hogwild.environments import read_heirs, with_heir
from envlab_populations.hogwild.learner import make_learner
from envlab_populations.hogwild.session import check_learned, trained_values
from envlab_populations.hogwild.spec import Spec, make_specs, read_specs
from envlab_populations.hogwild.translation import make_plan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_slm_lab.md"
READ = ("is read", "is read, with `-s`")
IN_PART = "is read for some of its `spec_params`"
ITERATIONS = 8
"""The longest training: with ``training_start_step`` and whole episodes, one learns nothing yet."""
KINDS = {
    r"leaves \$\{": "placeholders, which `-s` fills",
    r"'ALE/.*ale-py": "Atari, which needs ale-py",
    r"is 'HydraDQN'": "HydraDQN, which SLM-Lab itself no longer has",
    r"is 'OnPolicyCrossEntropy'": "the best of episodes (`OnPolicyCrossEntropy`)",
    r"needs actions of a Box": "SAC of discrete actions",
}
"""Names of refusals in the table, by words in their sentences. The first match counts."""
FILLINGS: dict[str, dict[str, Any]] = {
    "env": {
        "atari": "ALE/Pong-v5",
        "mujoco": "Hopper-v5",
        "playground": "Isaac-Cartpole-v0",  # one of ours, for MuJoCo Playground's
    },
    "max_frame": {"": 1e6},
}
"""Values of open placeholders, by words of the spec's name."""


def specs(checkout: Path) -> Iterator[tuple[Path, str, object]]:
    """Yield files, names and contents of all specs; of a file that cannot be read, its error.

    Raises:
        ConfigurationError: If it is no checkout of SLM-Lab's.
    """
    folder = checkout / "slm_lab/spec"
    if not folder.is_dir():
        raise ConfigurationError(
            f"{checkout} has no slm_lab/spec. Give the folder of a checkout of SLM-Lab."
        )
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".json", ".yaml", ".yml"):
            continue
        try:
            for name, given in read_specs(path).items():
                if isinstance(given, dict) and "agent" in given:  # not figures of random policies
                    yield path, name, given
        except EnvlabError as error:
            yield path, "", error


def outcome(path: Path, name: str, given: object, *, trains: bool = False) -> str:
    """Return one of :data:`READ` or :data:`IN_PART`, or the sentence that refuses a spec."""
    if isinstance(given, EnvlabError):
        return str(given)
    settings = fillings(name, given)
    few = ["env.num_envs=2"] if trains and _num_envs(given) > 2 else []
    few += ["meta.log_frequency=300"] if trains else []  # frames of an iteration over episodes
    try:
        specs = make_specs(name, given, [*settings, *few], origin=str(path))
    except EnvlabError as error:
        return str(error)
    refusals = [outcomes.refusal(partial(read, spec)) for spec in specs]
    if "" in refusals:  # of several environments, the agent is made for the first
        first = specs[refusals.index("")]
        refusals.append(outcomes.refusal(partial(read, first, makes=True, trains=trains)))
    if all(refusals) or refusals[-1]:
        return refusals[-1]
    return IN_PART if any(refusals) else READ[bool(settings)]


def _num_envs(given: Any) -> int:
    env = given["env"]
    env = env[0] if isinstance(env, list) else env
    return int(env.get("num_envs") or 1)


def read(spec: Spec, *, makes: bool = False, trains: bool = False) -> None:
    """Read a spec, and make its agent, and train it.

    Raises:
        EnvlabError: If it cannot be read, or the agent be made, or does not learn.
    """
    plan = make_plan(with_heir(spec, read_heirs()))
    if not makes:
        return
    env = made(plan.task, plan.env.get("num_frames", 1), plan.env["scene"]["num_envs"] * trains)
    cfg = replace(plan.agent, replay=replace(plan.agent.replay, size=10_000 * trains or 1))
    if cfg.is_off_policy and trains:
        starts = {"learning_starts": 16, "random_timesteps": 8}
        known = {key: value for key, value in starts.items() if key in cfg.settings}
        cfg = replace(cfg, num_steps_per_env=32, settings={**cfg.settings, **known})
    learner = make_learner(env, cfg, DistributedContext(device=env.device))
    if not trains:
        return
    before = trained_values(learner)
    learner.start(ITERATIONS)
    for number in range(1, ITERATIONS + 1):  # until it has learned
        learner.iterate(number, lambda *_: None)
        if not outcomes.refusal(lambda: check_learned(before, trained_values(learner))):
            return
    check_learned(before, trained_values(learner))


def fillings(name: str, given: Any) -> list[str]:
    """Return settings for the placeholders that a spec leaves open, as its name spells them."""
    choices = given.get("spec_params") or {}  # all of its values run
    left = sorted(set(re.findall(r"\$\{(\w+)\}", json.dumps(given))) - {*choices})
    words = [(key, word, value) for key in left for word, value in FILLINGS.get(key, {}).items()]
    return [f"{key}={value}" for key, word, value in words if word in name]


@functools.cache
def made(task: str, num_frames: int, num_envs: int) -> Any:
    """Return a task's environment.

    Raises:
        EnvlabError: If it is refused.
    """
    frames = [f"env.num_frames={num_frames}"] if num_frames > 1 else []
    return envlab.make(task, num_envs=num_envs or 1, device="cpu", overrides=frames)


def kind(sentence: str) -> str:
    """Return what the table calls a refusal."""
    return next((name for words, name in KINDS.items() if re.search(words, sentence)), "others")


def main(arguments: Sequence[str]) -> int:
    """Write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+", help="folders of SLM-Lab's checkouts")
    parser.add_argument("--train", action="store_true", help="train each until it learns")
    parser.add_argument("--verbose", action="store_true", help="print each refusal")
    flags = parser.parse_args(arguments)
    logging.getLogger("envlab").setLevel(logging.ERROR)
    taken = (*READ, IN_PART)
    counts: dict[str, collections.Counter[str]] = {}
    for checkout in flags.checkouts:
        found = counts[checkout.name] = collections.Counter()
        for path, name, given in specs(checkout):
            sentence = outcome(path, name, given, trains=flags.train)
            found[sentence if sentence in taken else kind(sentence)] += 1
            if flags.verbose and sentence not in READ:
                print(f"{path.name} {name}: {sentence}", flush=True)
    rows = [*taken, *sorted({row for found in counts.values() for row in found} - {*taken})]
    outcomes.write(PAGE, Path(__file__).name, outcomes.columns(counts, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
