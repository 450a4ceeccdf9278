"""``envlab doctor``: what this machine can do, what is wrong, and what to do about it.

Under a launcher, with ``--distributed``, it also checks the communication between ranks. It exits
with code 0, or 1 if there is a problem, and never hangs: whatever may not answer has a deadline.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence

from envlab.arguments import ArgumentParser
from envlab.distributed.interrupt import Interrupted, interruptible
from envlab.distributed.program import configure_logging
from envlab.distributed.ranks import launched_rank, read_ranks
from envlab.doctor._local import SECTIONS, examine_machine_of
from envlab.doctor.report import as_json, as_text
from envlab.errors import ConfigurationError, did_you_mean

logger = logging.getLogger(__name__)

TIMEOUT_S = 120.0


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab doctor``; return 1 if there is a problem."""
    flags = _parser().parse_args(list(arguments))
    sections = _sections(flags.only)
    if flags.timeout_s is not None and not flags.distributed:
        raise ConfigurationError("--timeout_s has no effect without --distributed. Leave it out.")
    if flags.timeout_s is not None and not flags.timeout_s > 0:
        raise ConfigurationError(f"--timeout_s is {flags.timeout_s}, but must be greater than 0.")
    configure_logging(launched_rank())
    try:
        with interruptible():
            if flags.distributed:
                from envlab.doctor.ranks import examine_ranks  # loads torch

                report = examine_ranks(sections, flags.device, flags.timeout_s or TIMEOUT_S)
            else:
                read_ranks(False, os.environ)  # refuses several processes
                report = examine_machine_of(sections, flags.device, os.environ)
    except Interrupted as interrupted:
        logger.warning("Interrupted: %s.", interrupted)
        return interrupted.exit_code
    findings, facts = report
    if launched_rank() == 0:
        text = json.dumps(as_json(findings, facts), indent=2) if flags.json else as_text(findings)
        print(text, flush=True)
    return int(any(finding.state == "problem" for finding in findings))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="envlab doctor",
        description="Check libraries, devices, machine and network; report problems, and what to "
        "do. With --distributed under a launcher: also communication between the ranks.",
        epilog="Several processes: python -m torch.distributed.run --nproc_per_node=2 "
        "-m envlab.cli doctor --distributed",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="one of several processes of a launcher: also measure and compare the ranks",
    )
    parser.add_argument(
        "--device", metavar="DEVICE", help="cpu, cuda or cuda:<index>, as train.py would get it"
    )
    parser.add_argument(
        "--only",
        metavar="SECTIONS",
        help=f"examine only these, of {','.join(SECTIONS)}; 'none': only the ranks",
    )
    parser.add_argument(
        "--timeout_s",
        type=float,
        metavar="S",
        help=f"with --distributed: how long to wait for other ranks (default: {TIMEOUT_S:.0f})",
    )
    return parser


def _sections(only: str | None) -> list[str]:
    """Return the sections to examine.

    Raises:
        ConfigurationError: For a section that does not exist.
    """
    if only is None:
        return list(SECTIONS)
    words = [word.strip() for word in only.split(",") if word.strip() not in ("", "none")]
    for word in words:
        if word not in SECTIONS:
            raise ConfigurationError(
                f"--only names {word!r}, but there are {', '.join(SECTIONS)}."
                f"{did_you_mean(word, SECTIONS)}"
            )
    return words
