"""Policies of packages, and elsewhere: ``--checkpoint pretrained``, ``hf:OWNER/NAME``.

A package of policies has a folder ``TASK/LIBRARY`` for each, or ``TASK/LIBRARY_ALGORITHM``, with
``policy.pt`` (a checkpoint without optimizer and environments), ``run.json`` and ``params/`` of its
run, and ``evaluation.json``. envlab's own package is ``envlab_policies``; others name theirs in an
entry point of the group ``envlab.policies``. Listing the policies imports none of the packages.

``hf:OWNER/NAME`` and ``wandb:ENTITY/PROJECT/RUN`` hold a run directory's ``run.json``, ``params/``
and ``checkpoints/``, as ``envlab push`` and ``--logger wandb`` leave them. They are fetched into a
folder below ``logs``, which then is the run's directory, and are read as untrusted files: no code
in them runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.distributed.ranks import launched_rank
from envlab.errors import CheckpointError
from envlab.plugins import named_plugins
from envlab.run.commands import library_words
from envlab.run.manifest import LOG_ROOT, read_manifest

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


_BESIDE = re.compile(r"run\.json|params/\w+\.yaml")
_CHECKPOINT = re.compile(r"checkpoints/[\w.-]+\.pt")
_NUMBER = re.compile(r"model_(\d+)\.pt")
_NAMES = {
    "hf": re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?"),
    "wandb": re.compile(r"(?P<name>[\w.-]+/[\w.-]+/[\w.-]+)"),
}
_FORMS = {"hf": "hf:OWNER/NAME[@REVISION][:FILE]", "wandb": "wandb:ENTITY/PROJECT/RUN[:FILE]"}


def is_remote(selector: str) -> bool:
    """Return whether a selector names a checkpoint elsewhere."""
    return selector.partition(":")[0] in _NAMES


def fetch(selector: str, root: str = LOG_ROOT) -> Path:
    """Fetch a checkpoint and the run directory around it; return the checkpoint's file.

    Args:
        selector: ``hf:OWNER/NAME[@REVISION][:FILE]`` or ``wandb:ENTITY/PROJECT/RUN[:FILE]``; FILE
            is one in ``checkpoints/``, by default the newest.
        root: Folder of all runs.

    Raises:
        CheckpointError: If it has another form, its client is not installed, or fetching fails.
    """
    scheme, _, rest = selector.partition(":")
    name, _, file = rest.partition(":")
    match = _NAMES[scheme].fullmatch(name)
    if match is None:
        raise CheckpointError(f"{selector!r} names no checkpoint; its form is {_FORMS[scheme]}.")
    folder = Path(root, scheme, name.replace("/", "--"))
    try:
        sizes, download = _OPENERS[scheme](**match.groupdict())
        chosen = _choose(sizes, file, selector)
        wanted = [*filter(_BESIDE.fullmatch, sizes), chosen]
        size = sum(sizes[each] for each in wanted) / 1e6
        if launched_rank() == 0:
            print(f"Fetching {len(wanted)} files ({size:.1f} MB) of {scheme}:{name} into {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as partial:
            for each in wanted:
                download(each, Path(partial))
                (folder / each).parent.mkdir(exist_ok=True)
                Path(partial, each).replace(folder / each)  # other ranks may be reading it
    except ModuleNotFoundError as error:
        package = {"hf": "huggingface_hub", "wandb": "wandb"}[scheme]
        raise CheckpointError(
            f"{selector} needs the package {package} ({error}). Install it with: pip install "
            f"{package}"
        ) from None
    except CheckpointError:
        raise
    except Exception as error:  # each client, and the network under it, raises its own errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise CheckpointError(
            f"{selector} cannot be fetched ({type(error).__name__}: {reason}). Check that the name "
            "is right, that this machine is online, and that you are logged in if it is private."
        ) from error
    return folder / chosen


def _choose(names: Mapping[str, int], file: str, selector: str) -> str:
    """Return the name of the selected checkpoint.

    Raises:
        CheckpointError: If there is none.
    """
    found = sorted(filter(_CHECKPOINT.fullmatch, names), key=_age)
    wanted = [name for name in found if not file or name == f"checkpoints/{file}"]
    if "run.json" not in names or not wanted:
        shown = ", ".join(name.partition("/")[2] for name in found) or "none"
        raise CheckpointError(
            f"{selector} holds no run of envlab with {file or 'a checkpoint'}: of checkpoints it "
            f"has {shown}. 'envlab push' and '--logger wandb' write some."
        )
    return wanted[-1]


def _age(name: str) -> int:
    """Return the iteration in a checkpoint's name, or a number below any."""
    match = _NUMBER.search(name)
    return int(match[1]) if match else -1


Download = Callable[[str, Path], Any]


def _of_hugging_face(name: str, revision: str | None) -> tuple[dict[str, int], Download]:
    """Return the sizes of a repository's files by name, and a function that downloads one."""
    hub = importlib.import_module("huggingface_hub")
    info = hub.HfApi().model_info(name, revision=revision, files_metadata=True)

    def download(file: str, folder: Path) -> None:
        hub.hf_hub_download(name, file, revision=info.sha, local_dir=folder)

    return {file.rfilename: file.size or 0 for file in info.siblings}, download


def _of_wandb(name: str) -> tuple[dict[str, int], Download]:
    """Return the sizes of a run's files by name, and a function that downloads one."""
    wandb = importlib.import_module("wandb")
    files = {file.name: file for file in wandb.Api().run(name).files()}

    def download(file: str, folder: Path) -> None:
        files[file].download(root=str(folder), replace=True)

    return {file: files[file].size for file in files}, download


_OPENERS: dict[str, Callable[..., tuple[dict[str, int], Download]]] = {
    "hf": _of_hugging_face,
    "wandb": _of_wandb,
}
