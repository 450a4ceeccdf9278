"""Policies that are installed with a package: ``--checkpoint pretrained``.

A package of policies has a folder ``TASK/LIBRARY`` for each, or ``TASK/LIBRARY_ALGORITHM``, with
``policy.pt`` (a checkpoint without optimizer and environments), ``run.json`` and ``params/`` of its
run, and ``evaluation.json``. envlab's own package is ``envlab_policies``; others name theirs in an
entry point of the group ``envlab.policies``. Listing the policies imports none of the packages.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.errors import CheckpointError
from envlab.plugins import named_plugins
from envlab.run.commands import library_words
from envlab.run.manifest import read_manifest

ENTRY_POINT_GROUP = "envlab.policies"
OWN = "envlab_policies"
SELECTOR = "pretrained"
"""Value of ``--checkpoint`` for an installed policy."""
TRAIN_FIRST = "Train first, or give a checkpoint's path with --checkpoint."
FILE, EVALUATION = "policy.pt", "evaluation.json"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """An installed policy."""

    folder: Path
    """Where it is."""
    manifest: Mapping[str, Any]
    """The manifest of its run: ``task``, ``library``, ``algorithm``, ..."""

    @property
    def checkpoint(self) -> Path:
        """The checkpoint file."""
        return self.folder / FILE

    @property
    def evaluation(self) -> dict[str, Any]:
        """The output of ``play --json`` for it."""
        found: dict[str, Any] = json.loads((self.folder / EVALUATION).read_text())
        return found


def policies(tasks: Collection[str] | None = None) -> list[Policy]:
    """Return the installed policies of some tasks, or all, sorted by task and library."""
    packages = named_plugins(ENTRY_POINT_GROUP).values()
    found = []
    for package in dict.fromkeys([OWN, *packages]):
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec else []:
            for file in Path(root).glob(f"*/*/{FILE}"):
                if tasks is None or file.parts[-3] in tasks:
                    found.append(Policy(folder=file.parent, manifest=read_manifest(file.parent)))
    return sorted(found, key=lambda one: one.folder.parts[-2:])


def shipped(library: str, tasks: Collection[str]) -> str:
    """Return how to play an installed policy of a library, or an empty text."""
    if any(policy.manifest.get("library") == library for policy in policies(tasks)):
        return f"A trained policy already exists: --checkpoint {SELECTOR} plays it. "
    return ""


def find_policy(library: str, origin: Mapping[str, str], tasks: Collection[str]) -> Policy:
    """Return the installed policy that a library trained for a task.

    Args:
        library: Name of the library.
        origin: Values that its manifest must hold, such as the algorithm.
        tasks: Ids of the task, as itself and as it was trained.

    Raises:
        CheckpointError: If there is none, naming the existing ones.
    """
    of_task = policies(tasks)
    for one in of_task:
        if {"library": library, **origin}.items() <= one.manifest.items():
            return one
    if of_task:
        others = ", ".join(" ".join(library_words(one.manifest)) for one in of_task)
        hint = f"There is a policy by {others}: name that library."
    else:
        known = sorted({str(policy.manifest["task"]) for policy in policies()})
        hint = f"There are some of {', '.join(known) or 'no task'}; train this one first."
    raise CheckpointError(
        f"No policy of {min(tasks, key=len)} by {library} comes with envlab. {hint}"
    )
