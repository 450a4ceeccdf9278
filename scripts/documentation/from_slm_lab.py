"""Write into docs/from_slm_lab.md the table of SLM-Lab's specs and their status.

Each spec of the checkouts is read, and its environment and agent made; nothing is trained. It
takes the folders of checkouts of SLM-Lab's repository, and fetches nothing::

    python scripts/documentation/from_slm_lab.py ~/SLM-Lab-4.3.0 ~/SLM-Lab
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
from pathlib import Path
from typing import Any

import envlab
from envlab.arguments import ArgumentParser
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError, EnvlabError
from envlab_populations.hogwild.environments import read_heirs, with_heir
from envlab_populations.hogwild.learner import make_learner
from envlab_populations.hogwild.spec import make_spec, read_specs
from envlab_populations.hogwild.translation import Plan, make_plan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_slm_lab.md"
BEGIN, END = "<!-- from_slm_lab.py -->\n", "<!-- until here -->\n"
READ = ("is read", "is read, with `-s`")
KINDS = {
    r"leaves \$\{": "placeholders, which `-s` fills",
    r"'ALE/.*ale-py": "Atari, which needs ale-py",
    r"is 'HydraDQN'": "HydraDQN, which SLM-Lab itself no longer has",
    r"is 'OnPolicyCrossEntropy'": "the best of episodes (`OnPolicyCrossEntropy`)",
    r"but sac learns from 'Replay'": "SAC with priorities (`PrioritizedReplay`)",
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


def outcome(path: Path, name: str, given: object) -> str:
    """Return one of :data:`READ`, or the sentence by which a spec is refused."""
    if isinstance(given, EnvlabError):
        return str(given)
    settings = fillings(name, given)
    try:
        spec = with_heir(make_spec(name, given, settings, origin=str(path)), read_heirs())
        refusal = learned(make_plan(spec))
    except EnvlabError as error:
        refusal = str(error)
    return refusal or READ[bool(settings)]


def fillings(name: str, given: Any) -> list[str]:
    """Return settings for the placeholders that a spec leaves open, as its name says them."""
    choices = given.get("spec_params") or {}
    left = sorted(set(re.findall(r"\$\{(\w+)\}", json.dumps(given))) - {*choices})
    words = [(key, word, value) for key in left for word, value in FILLINGS.get(key, {}).items()]
    return [f"{key}={value}" for key, word, value in words if word in name]


def learned(plan: Plan) -> str:
    """Return an empty text if a plan's agent can be made for its task, else why it cannot."""
    env = made(plan.task)
    if isinstance(env, str):
        return env
    cfg = replace(plan.agent, replay=replace(plan.agent.replay, size=1))
    try:
        make_learner(env, cfg, DistributedContext(device=env.device))
    except EnvlabError as error:
        return str(error)
    return ""


@functools.cache
def made(task: str) -> Any:
    """Return a task's environment, or the sentence by which it is refused."""
    try:
        return envlab.make(task, num_envs=1, device="cpu")
    except EnvlabError as error:
        return str(error)


def kind(sentence: str) -> str:
    """Return what the table calls a refusal."""
    return next((name for words, name in KINDS.items() if re.search(words, sentence)), "others")


def main(arguments: Sequence[str]) -> int:
    """Write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+", help="folders of SLM-Lab's checkouts")
    parser.add_argument("--verbose", action="store_true", help="print each refusal")
    flags = parser.parse_args(arguments)
    logging.getLogger("envlab").setLevel(logging.ERROR)
    counts: list[collections.Counter[str]] = []
    for checkout in flags.checkouts:
        counts.append(collections.Counter())
        for path, name, given in specs(checkout):
            sentence = outcome(path, name, given)
            counts[-1][sentence if sentence in READ else kind(sentence)] += 1
            if flags.verbose and sentence not in READ:
                print(f"{path.name} {name}: {sentence}")
    rows = [*READ, *sorted({row for found in counts for row in found} - {*READ})]
    lines = [f"| | {' | '.join(checkout.name for checkout in flags.checkouts)} |"]
    lines.append("|---|" + "---|" * len(counts))
    lines += [f"| {row} | {' | '.join(str(found[row]) for found in counts)} |" for row in rows]
    lines.append(f"| all | {' | '.join(str(found.total()) for found in counts)} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}" + "\n".join(lines) + f"\n{END}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
