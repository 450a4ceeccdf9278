"""Write into docs/from_slm_lab.md the table of SLM-Lab's specs and what becomes of each kind.

Each spec of the checkouts is read and translated, and its environment made; nothing is trained. It
takes the folders of checkouts of SLM-Lab's repository, and fetches nothing::

    python scripts/documentation/from_slm_lab.py ~/SLM-Lab-4.3.0 ~/SLM-Lab
"""

from __future__ import annotations

import collections
import functools
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import envlab
from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError, EnvlabError
from envlab_populations.hogwild.environments import read_heirs, with_heir
from envlab_populations.hogwild.spec import make_spec, read_specs
from envlab_populations.hogwild.translation import make_plan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_slm_lab.md"
BEGIN, END = "<!-- from_slm_lab.py -->\n", "<!-- until here -->\n"
KINDS = {
    r"leaves \$\{": "placeholders, which `-s` fills",
    r"'?ALE/|Atari|NoFrameskip|Pong|Breakout": "Atari, which needs ale-py",
    r"ConvNet|conv": "convolutions",
    r"RecurrentNet|recurrent": "recurrent networks",
    r"OnPolicyReplay|'Reinforce'": "REINFORCE, and episodes as batches (`OnPolicyReplay`)",
    r"CrossQ": "CrossQ",
    r"SIL": "self-imitation (SIL, PPOSIL)",
    r"SARSA": "SARSA",
    r"[Uu]nity|playground|Playground": "Unity or MuJoCo Playground",
    r"shared|[Dd]ueling": "shared or dueling networks",
    r"optim|Lookahead|scheduler": "another optimiser or schedule",
    r"VideoPinball": "Atari, which needs ale-py",
    r"HydraDQN": "several environments at once (HydraDQN)",
}
"""Names of refusals in the table, by words in their sentences. The first that matches counts."""


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
    """Return an empty text, or the sentence by which a spec is refused."""
    if isinstance(given, EnvlabError):
        return str(given)
    try:
        spec = with_heir(make_spec(name, given, origin=str(path)), read_heirs())
        return made(make_plan(spec).task)
    except EnvlabError as error:
        return str(error)


@functools.cache
def made(task: str) -> str:
    """Return an empty text if a task's environment can be made, else why it cannot."""
    try:
        envlab.make(task, num_envs=1, device="cpu").close()
    except EnvlabError as error:
        return str(error)
    return ""


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
            counts[-1][kind(sentence) if sentence else "is read"] += 1
            if sentence and flags.verbose:
                print(f"{path.name} {name}: {sentence}")
    rows = ["is read", *sorted({row for found in counts for row in found} - {"is read"})]
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
