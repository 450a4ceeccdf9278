"""envlab.sh, run on a checkout of a tiny package without dependencies, so without downloads."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "envlab.sh"

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "envlab"
version = "0.1.0"

[project.optional-dependencies]
video = []
web = []
dev = ["envlab[video,web]"]

[tool.envlab.extras]
video = '--video'
web = '--viz[= ]web'
dev = '^(setup --all|test)\\b'
"""

# A minimal PEP 660 build backend: an editable wheel that holds one .pth file.
BACKEND = """\
import pathlib, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    info = "envlab-0.1.0.dist-info"
    files = {
        "envlab.pth": str(pathlib.Path("package").resolve()),
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: envlab\\nVersion: 0.1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
    name = "envlab-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)
    return name
"""


@pytest.fixture(scope="module")
def first_use(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A checkout in a folder with a space in its name, and the result of its first use."""
    root = make_checkout(tmp_path_factory.mktemp("envlab sh") / "a checkout")
    return root, run(root, "python", "-c", "import dummy; print('from', dummy.__file__)")


@pytest.fixture
def checkout(first_use: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """The checkout, ready for use; every test leaves it usable."""
    return first_use[0]


@pytest.fixture
def unstamped(checkout: Path) -> Path:
    """The checkout as if nothing were installed yet."""
    (checkout / ".venv" / "envlab-stamp.txt").unlink()
    return checkout


def make_checkout(root: Path) -> Path:
    (root / "package").mkdir(parents=True)
    (root / "package" / "dummy.py").touch()
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "constraints.txt").write_text("# none\n")
    shutil.copy2(SCRIPT, root)
    return root


def environment(**changes: str) -> dict[str, str]:
    """The environment of a user who has set nothing but ``changes``."""
    ours = ("ENVLAB_PYTHON", "ENVLAB_VENV", "ENVLAB_EXTRAS", "VIRTUAL_ENV", "CONDA_PREFIX")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    return {**env, "ENVLAB_PYTHON": sys.executable, **changes}


def run(
    root: Path, *command: str, cwd: Path | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    words, piped = [root / "envlab.sh", *command], {"capture_output": True, "text": True}
    return subprocess.run(words, cwd=cwd or root, env=environment(**changes), timeout=120, **piped)


def assert_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """Require exit code 2 and one sentence with ``words``."""
    assert result.returncode == 2
    assert result.stderr.startswith("envlab: ")
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert [word for word in words if word not in result.stderr] == []


@pytest.mark.slow
def test_first_use_makes_the_environment_and_runs_the_command(first_use) -> None:
    root, result = first_use
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"from {root / 'package' / 'dummy.py'}\n"
    assert "making" in result.stderr
    assert "ready after" in result.stderr
    assert f"or all of it now by {root}/envlab.sh setup --all" in result.stderr.splitlines()[-1]
    assert (root / ".venv" / "bin" / "python").exists()


def test_second_use_installs_nothing_and_is_silent(checkout: Path) -> None:
    log = checkout / ".venv" / "envlab-install.log"
    installed_at = log.stat().st_mtime_ns
    result = run(checkout, "python", "-c", "import sys; print(sys.prefix)")
    assert result.stdout == f"{checkout / '.venv'}\n"
    assert result.stderr == ""
    assert log.stat().st_mtime_ns == installed_at


def test_arguments_folder_and_exit_code_pass_through(checkout: Path, tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv[1:], os.getcwd()); sys.exit(7)"
    result = run(checkout, "python", "-c", program, "two words", "*", "", "$HOME", cwd=tmp_path)
    assert result.returncode == 7
    assert result.stdout == f"{['two words', '*', '', '$HOME']} {tmp_path}\n"


def test_the_command_takes_the_place_of_the_script_and_gets_its_signals(checkout: Path) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert run(checkout, "python", "-c", program).returncode == -signal.SIGTERM


@pytest.mark.long
def test_changed_constraints_install_again_into_the_same_environment(checkout: Path) -> None:
    kept = checkout / ".venv" / "kept"
    kept.touch()
    (checkout / "constraints.txt").write_text("# changed\n")
    result = run(checkout, "true")
    assert result.returncode == 0, result.stderr
    assert "installing" in result.stderr
    assert kept.exists()
    assert run(checkout, "true").stderr == ""


@pytest.mark.long
def test_an_extra_is_installed_before_the_first_command_that_needs_it(unstamped: Path) -> None:
    assert "installing envlab and" in run(unstamped, "true").stderr
    first = run(unstamped, "echo", "--viz", "web", "ran")
    assert first.stdout == "--viz web ran\n"
    assert "installing envlab[web] and" in first.stderr
    assert "making" not in first.stderr
    assert "installing envlab[video,web] and" in run(unstamped, "true", "--video").stderr
    for words in (["--viz=web"], ["--video", "--viz=web"], []):
        assert run(unstamped, "true", *words).stderr == ""


@pytest.mark.long
def test_setup_installs_all_that_commands_may_need_where_it_is_asked_to(unstamped: Path) -> None:
    everything = run(unstamped, "setup", "--all")
    assert "installing envlab[dev] and" in everything.stderr
    assert "setup --all" not in everything.stderr
    assert run(unstamped, "true", "--video", "--viz=web").stderr == ""
    assert_refused(run(unstamped, "setup", "--al"), "'--al'", "only --all")


@pytest.mark.long
@pytest.mark.parametrize(("given", "installed"), [("", "envlab"), ("web", "envlab[web]")])
def test_extras_that_are_given_are_the_ones_installed(unstamped: Path, given, installed) -> None:
    result = run(unstamped, "true", "--video", ENVLAB_EXTRAS=given)
    assert f"installing {installed} and" in result.stderr
    assert run(unstamped, "true", "--video", ENVLAB_EXTRAS=given).stderr == ""


@contextlib.contextmanager
def installed_by(root: Path, backend: str) -> Iterator[None]:
    """Replace the program that installs the package."""
    (root / "backend.py").write_text(backend)
    yield
    (root / "backend.py").write_text(BACKEND)


@pytest.mark.long
def test_commands_without_a_new_extra_run_without_a_network(unstamped: Path) -> None:
    assert run(unstamped, "true").returncode == 0
    with installed_by(unstamped, "raise RuntimeError('no network')\n"):
        failed, other = run(unstamped, "true", "--video"), run(unstamped, "true")
    assert failed.returncode == 2
    assert "pip could not install .[video]" in failed.stderr
    assert (other.returncode, other.stderr) == (0, "")
    assert "installing envlab[video] and" in run(unstamped, "true", "--video").stderr


@pytest.mark.long
def test_an_extra_is_installed_without_a_stamp_until_it_is_complete(unstamped: Path) -> None:
    assert run(unstamped, "true").returncode == 0
    looks = f"{BACKEND}\nassert not pathlib.Path('.venv/envlab-stamp.txt').exists()\n"
    with installed_by(unstamped, looks):
        result = run(unstamped, "true", "--video")
    assert result.returncode == 0, result.stderr


@pytest.mark.long
def test_a_failed_installation_shows_the_end_of_the_log_and_is_tried_again(checkout: Path) -> None:
    (checkout / "constraints.txt").write_text("# changed once more\n")
    with installed_by(checkout, "raise RuntimeError('the disk is full')\n"):
        failed = run(checkout, "echo", "never run")
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert "the disk is full" in failed.stderr
    assert failed.stderr.splitlines()[-1].startswith("envlab: pip could not install")
    assert run(checkout, "true").returncode == 0


@pytest.mark.parametrize(
    "missing",
    [
        "bin/python",
        "pyvenv.cfg",  # without it, bin/python is the system's Python: pip would install into that
        "lib/python*/site-packages/envlab-*/RECORD",  # pip takes this torn package for installed
    ],
)
def test_a_damaged_environment_is_not_installed_into(checkout: Path, missing: str) -> None:
    stamp = checkout / ".venv" / "envlab-stamp.txt"
    (damaged,) = (checkout / ".venv").glob(missing)
    for path in (stamp, damaged):
        path.rename(f"{path}.away")
    # It must be made again, and before anything is removed there must be a Python to do so.
    result = run(checkout, "true", ENVLAB_PYTHON="/no/python")
    for path in (stamp, damaged):
        Path(f"{path}.away").rename(path)
    assert_refused(result, "/no/python")
    assert run(checkout, "true").stderr == ""


@pytest.mark.long
@pytest.mark.slow
def test_a_broken_environment_is_made_again_once_by_two_that_need_it(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("no-such-python")
    command = [checkout / "envlab.sh", "python", "-c", "import dummy; print('ran')"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment(), **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [stdout for stdout, _ in outputs] == ["ran\n", "ran\n"]
    assert sum("making" in stderr for _, stderr in outputs) == 1
    assert run(checkout, "true").stderr == ""


def test_the_active_environment_is_used_where_asked_for_and_is_there(checkout: Path) -> None:
    active = checkout / ".venv"
    command = ("python", "-c", "import sys; print(sys.prefix)")
    result = run(checkout, *command, ENVLAB_VENV="active", VIRTUAL_ENV=str(active))
    assert result.stdout == f"{active}\n", result.stderr
    assert_refused(run(checkout, "true", ENVLAB_VENV="active"), "ENVLAB_VENV=active", "activate")


def test_a_folder_that_is_no_environment_is_never_removed(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    assert_refused(run(checkout, "true", ENVLAB_VENV=str(tmp_path)), str(tmp_path))
    assert (tmp_path / "thesis.tex").exists()


def test_an_unusable_python_is_named(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    assert_refused(run(root, "true", ENVLAB_PYTHON="/no/python"), "/no/python", "3.11")
    assert not (root / ".venv").exists()


def test_a_python_without_the_venv_module_names_the_debian_package(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    bare = tmp_path / "bare-python"
    bare.write_text(
        '#!/bin/sh\ncase "$*" in\n*ensurepip*) exit 1 ;;\n'
        '"-I -") echo "$0" ;;\n'  # asked for the interpreter behind it
        f'*) exec "{sys.executable}" "$@" ;;\nesac\n'
    )
    bare.chmod(0o755)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert_refused(run(root, "true", ENVLAB_PYTHON=str(bare)), f"apt install {version}-venv")


def test_without_a_command_the_help_is_shown_and_nothing_is_made(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    assert run(root).returncode == 2
    assert "Usage" in run(root).stderr
    assert "Usage" in run(root, "--help").stdout
    assert_refused(run(root, "--verbose"), "--verbose", "--help")
    assert not (root / ".venv").exists()


def test_the_test_command_runs_every_check_and_says_which_failed(checkout: Path) -> None:
    (checkout / "pytest.py").write_text("import sys; print('pytest', *sys.argv[1:])")
    for tool, code in (("ruff", 1), ("mypy", 0), ("lint-imports", 0)):
        stub = checkout / ".venv" / "bin" / tool
        stub.write_text(f'#!/bin/sh\necho {tool} "$@"\nexit {code}\n')
        stub.chmod(0o755)
    everything = run(checkout, "test")
    assert everything.stdout.splitlines() == [
        "pytest -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 --durations=10",
        *("envlab: ruff check .", "ruff check ."),
        *("envlab: ruff format --check .", "ruff format --check ."),
        *("envlab: mypy", "mypy"),
        *("envlab: lint-imports --no-logo", "lint-imports --no-logo"),
    ]
    assert everything.returncode == 1
    assert everything.stderr.endswith("failed: ruff check ., ruff format --check .\n")
    (checkout / ".venv/bin/ruff").write_text("#!/bin/sh\n")
    passed = run(checkout, "test")  # the other checks end before the tests do
    assert passed.returncode == 0
    assert passed.stderr.endswith("all checks passed\n")
    (checkout / ".venv/bin/ruff").write_text('#!/bin/sh\necho ruff "$@"\nexit 1\n')
    longest = run(checkout, "test", "--all")
    assert longest.stdout == everything.stdout.replace("=10", "=10 --all")
    selected = run(checkout, "test", "-k", "two words", cwd=checkout.parent)
    assert (selected.returncode, selected.stdout) == (0, "pytest -k two words\n")
