"""The template's task and CONTRIBUTING.md's library: installed, tested, trained and played."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import envlab
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.tools import new
from envlab.tools.new import write_task
from tests.launcher import ROOT, TRAIN, torchrun


def write_files(section: str, folder: Path) -> list[str]:
    """Write a section's code blocks that begin with a file name in a comment; return the names."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    names = []
    for block in re.findall(r"```\w+\n(.*?)```", text, re.DOTALL):
        name = re.match(r"(?:# |<!-- )([\w./]+\.(?:py|xml|toml))", block)
        if name:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
            names.append(name[1])
    return names


def install(site: Path, *what: str | Path) -> None:
    """Install packages in a folder, as by pip."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--target", site, *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with both packages installed as by pip, with entry points."""
    suite = write_task("pet_arm", tmp_path_factory.mktemp("suites"))
    library, site = (tmp_path_factory.mktemp(name) for name in ("my_library", "site"))
    python = [f"my_library/{name}.py" for name in ("__init__", "cfg", "learner")]
    assert write_files("Add a library", library) == ["pyproject.toml", *python]
    install(site, suite, library)
    assert (site / "pet_arm/arm.xml").exists()
    (site / "its_tests").symlink_to(suite / "tests")
    return site


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folder of a new task, and the one where it is installed as its own instructions say."""
    where, site = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("editable")
    install(site, "-e", write_task("pet_arm", where))
    # Python reads the files of editable installations only in its own folders.
    (site / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n")
    return where, site


def run(site: Path, cwd: Path, *command: str) -> str:
    paths = os.pathsep.join((str(site), str(ROOT), str(ROOT / "source")))
    environment = {**os.environ, "PYTHONPATH": paths}
    piped = {"capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=environment, **piped)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_task_is_listed_with_ours(site, tmp_path):
    listed = run(site, tmp_path, "-m", "envlab.cli", "list")
    assert re.search("^Pet-Arm-v0 +manager +rsl_rl +A two-link arm", listed, re.MULTILINE)
    assert "Isaac-Cartpole-v0" in listed


@pytest.mark.long
def test_the_task_is_found_from_the_folder_that_holds_its_package(editable):
    """There the package's outer folder, which Python may import as well, has the same name."""
    where, site = editable
    code = "from envlab import registry; print(registry.get_task('Pet-Arm-v0').description)"
    assert "A two-link arm" in run(site, where, "-c", code)


def test_the_task_passes_its_own_test(site, tmp_path):
    run(site, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(site / "its_tests"))


@pytest.mark.long
def test_the_task_is_trained_with_an_agent_that_suits_its_two_joints(site, tmp_path):
    flags = "--task=Pet-Arm-v0 --headless --device=cpu --max_iterations=2 --num_envs=64".split()
    run(site, tmp_path, str(TRAIN), *flags)
    (checkpoint,) = tmp_path.glob("logs/rsl_rl/pet_arm/*/checkpoints/model_2.pt")
    actor = torch.load(checkpoint, weights_only=True)["model"]["actor_state_dict"]
    sizes = [tuple(tensor.shape) for name, tensor in actor.items() if name.endswith("weight")]
    assert sizes == [(32, 8), (32, 32), (2, 32)]


@pytest.mark.parametrize("script", ["", "../envlab.sh "])
def test_the_commands_that_are_printed_run_in_envlabs_environment(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """Through envlab.sh if that wrote the task: pip and pytest may be another Python's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ENVLAB_SH", raising=False)
    if script:
        monkeypatch.setenv("ENVLAB_SH", script.strip())
    assert new.main(["task", "pet_arm"]) == 0
    commands = [line.partition("#")[0].strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert commands == [
        f"{script}pip install --no-deps --no-build-isolation -e pet_arm",
        f"{script}python -m pytest pet_arm",
        f"{script}envlab train rsl_rl --task=Pet-Arm-v0",
        f"{script}envlab play rsl_rl --task=Pet-Arm-v0 --video",
    ]


def test_a_folder_that_is_there_is_not_written_to(tmp_path: Path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigurationError, match="already exists"):
        write_task("taken", tmp_path)
    assert list(tmp_path.rglob("*.toml")) == []


@pytest.mark.slow
def test_the_library_trains_resumes_and_plays(site, tmp_path):
    code = """
from envlab.cli import main
words = ["my_library", "--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=16"]
longer = ["--max_iterations=4", "agent.save_interval=2"]
assert main(["train", *words, *longer]) == 0
assert main(["train", *words, *longer, "--resume", "--checkpoint=model_2.pt"]) == 0
assert main(["play", *words]) == 0
main([])
"""
    printed = run(site, tmp_path, "-c", code)
    found = sorted(tmp_path.glob("logs/my_library/*/*/checkpoints/model_4.pt"))
    whole, resumed = (torch.load(path, weights_only=True) for path in found)
    assert torch.equal(whole["model"]["policy"]["weight"], resumed["model"]["policy"]["weight"])
    assert "Mean return" in printed
    assert "a policy gradient on one linear layer" in printed


@pytest.mark.long
@pytest.mark.slow
def test_the_library_trains_on_two_ranks_that_stay_equal(site, tmp_path):
    launcher = torchrun(2, "-m", "envlab", "train", "--rl_library=my_library")[1:]
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=16", "--distributed"]
    audits = "agent.audit_interval=1"
    run(site, tmp_path, *map(str, launcher), *flags, audits, "--max_iterations=2")
    (manifest,) = tmp_path.glob("logs/my_library/isaac_cartpole/*/run.json")
    assert json.loads(manifest.read_text())["status"] == "finished"


def test_the_newest_release_of_the_changelog_is_this_version():
    page = (ROOT / "CHANGELOG.md").read_text()
    assert len(page.splitlines()) <= 120
    newest = re.search(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", page, re.MULTILINE)
    assert newest is not None
    assert newest[1] == envlab.__version__


def test_the_page_shows_the_order_of_a_step_and_nobody_has_another():
    shown = textwrap.dedent(inspect.getsource(BatchedEnv.transition))
    assert shown in (ROOT / "docs/step.md").read_text()
    words = [*(ROOT / "envlab").rglob("*.py"), *(ROOT / "source").rglob("*.py")]
    assert [path.name for path in words if "def transition(self" in path.read_text()] == [
        "batched_env.py"
    ]
