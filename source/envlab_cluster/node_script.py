"""The script that runs a node's part of a launch; it is readable and can be rerun by hand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from envlab_cluster.state import Node, RunState

JOIN_TIMEOUT_S = 120
"""How long nodes wait for each other before they give up."""
RANK_PREFIX = "[rank ${rank}] "

_TEXT = """#!/usr/bin/env bash
# {title}
# shellcheck disable=SC1091,SC2016
{exports}cd -- {folder} || exit 3
. {activate} || exit 3
trap : TERM INT HUP # its process ends first, and then this script writes the exit code
{command}
code=$?
printf '%s\\n' "$code" >{part} && mv -f -- {part} {code}
exit "$code"
"""


def node_script(
    *,
    title: str,
    cwd: str,
    run_folder: str,
    activate: str,
    exports: Mapping[str, str],
    command: Sequence[str],
) -> str:
    """Return the text of a script that runs a command and leaves its exit code in a file.

    Args:
        title: A readable title.
        cwd: Where the command runs.
        run_folder: Where ``exit_code`` is written.
        activate: The script that activates the Python environment; empty: none.
        exports: Environment variables.
        command: The words of the command.
    """
    code = f"{run_folder}/exit_code"
    text = _TEXT.format(
        title=" ".join(title.split()),
        exports="".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()),
        folder=shlex.quote(cwd),
        activate=shlex.quote(activate),
        command=_on_lines(command),
        part=shlex.quote(f"{code}.part"),
        code=shlex.quote(code),
    )
    return text if activate else text.replace(". '' || exit 3\n", "")


def _on_lines(words: Sequence[str]) -> str:
    """Return a command with each option on a separate line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if (word.startswith("-") and len(word) > 2) or ("/" in word and word.endswith(".py")):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n    ".join(" ".join(line) for line in lines if line)


def torchrun_words(
    run: RunState, node: Node, *, rdzv_id: str, is_host: bool, max_restarts: int
) -> list[str]:
    """Return the command that starts a node's processes.

    There is no ``--node_rank``: torch 2.13 ignores it under c10d, with a warning, and gives ranks
    in the order of the nodes' addresses as text (dynamic_rendezvous.py).

    ``rdzv_id`` is the same on all nodes, and not guessable. ``is_host`` marks the node that keeps
    the rendezvous. Otherwise torch 2.13 decides by the address of the node's host name, which
    /etc/hosts often has as 127.0.1.1.
    """
    conf = f"is_host={str(is_host).lower()},join_timeout={JOIN_TIMEOUT_S}"
    return [
        *("python", "-m", "envlab.distributed.torchrun"),
        *(f"--nnodes={len(run.nodes)}", f"--nproc_per_node={node.num_processes}"),
        *("--rdzv_backend=c10d", f"--rdzv_id={rdzv_id}", f"--rdzv_endpoint={run.endpoint}"),
        *(f"--rdzv_conf={conf}", f"--local_addr={node.local_address}"),
        *(f"--max_restarts={max_restarts}", f"--log_dir={node.folder}/ranks", "--tee=3"),
    ]
