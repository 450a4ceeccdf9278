"""``envlab push``: upload a run's policy to a Hugging Face repository, with a model card."""

from __future__ import annotations

import importlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from envlab.arguments import ArgumentParser
from envlab.config import load_yaml
from envlab.errors import CheckpointError, ConfigurationError, RunDirectoryError
from envlab.foreign import check_file, parse_json, printable, read_text
from envlab.registry import get_task, list_tasks
from envlab.run.commands import library_words
from envlab.run.packing import EXPORTED_FROM, pack
from envlab.training.continuation import listing, task_changes

_MOST_ONNX_BYTES = 2**31  # the limit of the format
_NAMED = {"task": True, "library": True, "algorithm": False, "ml_framework": False}
"""Names in a manifest that the card's metadata and command use, and whether they are required."""
_PACKAGES = ("envlab", "torch", "mujoco", "mujoco-warp", "rsl-rl-lib", "rl-games", "skrl", "jax")


def main(arguments: Sequence[str]) -> int:
    """Push a policy, and return 0.

    Raises:
        EnvlabError: If there is no such run or checkpoint, or it cannot be pushed.
    """
    parser = ArgumentParser(prog="envlab push", description="Push a policy to Hugging Face.")
    parser.add_argument("run", type=Path, metavar="RUN", help="the run directory")
    parser.add_argument("to", metavar="hf:OWNER/NAME", help="the repository, made if need be")
    parser.add_argument(
        "--checkpoint", default="best", metavar="CKPT", help="best (default), latest, or a file"
    )
    parser.add_argument("--private", action="store_true", help="make a private repository")
    parser.add_argument("--message", metavar="TEXT", help="of the commit")
    parser.add_argument(
        "--dry_run", action="store_true", help="print the model card, and push nothing"
    )
    flags = parser.parse_args(list(arguments))
    scheme, _, name = flags.to.partition(":")
    if scheme != "hf" or name.count("/") != 1:
        raise ConfigurationError(f"{flags.to!r} is not a repository; its form is hf:OWNER/NAME.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        manifest = pack(flags.run, flags.checkpoint, folder, "checkpoints/policy.pt")
        exported = flags.run / "exported" / "policy.onnx"
        has_onnx = exported.is_file() and _is_of(exported, manifest["iteration"])
        if has_onnx:
            (folder / "exported").mkdir()
            shutil.copyfile(exported, folder / "exported" / exported.name)
        text = card(manifest, name, changes=_changes(folder, manifest), has_onnx=has_onnx)
        (folder / "README.md").write_text(text)
        if flags.dry_run:
            print(text)
            return 0
        message = flags.message or f"{manifest['task']} by {manifest['library']}"
        print(_upload(folder, name, message, is_private=flags.private))
    return 0


def _is_of(exported: Path, iteration: int) -> bool:
    """Return whether an exported policy is that of a checkpoint; else say how to make it so."""
    reason = f"it is of another checkpoint than iteration {iteration}, which is pushed"
    try:
        check_file(exported, _MOST_ONNX_BYTES)
        if parse_json(read_text(exported.with_name(EXPORTED_FROM))) == {"iteration": iteration}:
            return True
    except (OSError, ValueError) as error:
        reason = f"its checkpoint is not known ({error})"
    print(
        f"{exported} is left out: {reason}. Export that one first: envlab export ... "
        "--checkpoint=FILE"
    )
    return False


def _changes(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return what the run changed of its task, if that is installed here."""
    if manifest["task"] not in {task.id for task in list_tasks()}:
        return ""
    env = load_yaml(folder / "params" / "env.yaml")
    return listing(task_changes(env, get_task(manifest["task"])))


def card(manifest: Mapping[str, Any], name: str, *, changes: str, has_onnx: bool) -> str:
    """Return the model card: facts of the manifest, and how to play the policy.

    Args:
        manifest: The public one, see :func:`envlab.run.packing.pack`.
        name: The repository.
        changes: What the run changed of its task, so that the return is of another one.
        has_onnx: Whether ``exported/policy.onnx`` is included.

    Raises:
        RunDirectoryError: If the manifest's values are none that envlab writes.
    """
    _check_names(manifest)
    task, library = manifest["task"], " ".join(library_words(manifest))
    versions = manifest.get("versions", {})
    git, value = manifest.get("git") or {}, manifest.get("mean_return")
    commit = f"{git.get('commit')}{', with changes' if git.get('dirty') else ''}"
    facts = {
        "task": f"`{task}`",
        "changed in it (its own value)": changes or None,
        "trained by": f"`{library}`",
        "frames": f"{manifest['frames']:,}, in {manifest['iteration']:,} iterations",
        "mean return": None if value is None else f"{value:.3f}, at the run's end, exploring",
        "seed": f"{manifest.get('seed')} (one seed)",
        "processes": (manifest.get("world") or {}).get("size"),
        "command": f"`{manifest['command']}`",
        "code": None if git.get("commit") is None else f"envlab at {commit}",
        "versions": ", ".join(f"{key} {versions[key]}" for key in _PACKAGES if key in versions),
    }
    shown = {key: _cell(fact) for key, fact in facts.items() if fact is not None}
    rows = "".join(f"| {key} | {text} |\n" for key, text in shown.items())
    onnx = "\n`exported/policy.onnx` is the policy without envlab and torch.\n" if has_onnx else ""
    tags = ["envlab", "reinforcement-learning", "robotics", task, manifest["library"]]
    metadata = {
        "library_name": "envlab",
        "pipeline_tag": "reinforcement-learning",
        "tags": tags,
    }
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n\n"
        f"# {task}, trained by {manifest['library']}\n\n"
        f"    envlab play {library} --task={task} --checkpoint=hf:{name}\n\n"
        f"| | |\n|---|---|\n{rows}{onnx}"
    )


def _check_names(manifest: Mapping[str, Any]) -> None:
    """Refuse names with which a run could inject lines into the card."""
    for key, is_needed in _NAMED.items():
        named = manifest.get(key)
        if named is None and not is_needed:
            continue
        if named is None or not re.fullmatch(r"[\w./:{}+-]+", named):
            raise RunDirectoryError(
                f"The run is not pushed, because its run.json has the {key} {named!r:.80}, which "
                "must be a name of letters, digits and . / : + - _ only. Take the file as envlab "
                "wrote it."
            )


def _cell(fact: Any) -> str:
    """Return a fact as the text of a table's cell, which it can't end."""
    return " ".join(printable(str(fact)).split()).replace("|", "\\|")


def _upload(folder: Path, name: str, message: str, *, is_private: bool) -> str:
    """Upload a folder; return the commit's address.

    Raises:
        CheckpointError: If the upload fails.
    """
    try:
        api = importlib.import_module("huggingface_hub").HfApi()
        api.create_repo(name, private=is_private or None, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    except ModuleNotFoundError as error:
        raise CheckpointError(
            f"'envlab push' needs the package huggingface_hub ({error}). Install it with: pip "
            "install huggingface_hub"
        ) from None
    except Exception as error:  # the client and the network have many exceptions
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise CheckpointError(
            f"hf:{name} was not pushed ({type(error).__name__}: {reason}). Log in with 'hf auth "
            "login' or HF_TOKEN, as a user who may write to that repository."
        ) from error
    return str(commit.commit_url)
