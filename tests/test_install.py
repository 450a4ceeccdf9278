"""Installing the checkout in place, as ``pip install -e .`` and ``envlab.sh`` do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT

IMPORTS = """
import site, sys
site.addsitedir(sys.argv[1])
sys.path.insert(0, "")
import envlab, envlab_assets
print(envlab.__version__, envlab.__file__, envlab_assets.__file__, sep="\\n")
"""


def test_envlab_is_imported_from_the_folder_around_a_clone_of_that_name(tmp_path: Path):
    """A folder called envlab there is no package: what is installed must be found before it."""
    pytest.importorskip("hatchling", reason="needs hatchling: pip install -e '.[test]'")
    around, site = tmp_path / "around", tmp_path / "site"
    around.mkdir()
    (around / "envlab").symlink_to(ROOT)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--target", str(site), "-e", str(ROOT)]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert installed.returncode == 0, installed.stderr
    # -S: without what is installed where the tests run.
    command = [sys.executable, "-I", "-S", "-c", IMPORTS, str(site)]
    done = subprocess.run(command, cwd=around, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    version, envlab, assets = done.stdout.splitlines()
    assert version[0].isdigit()
    assert Path(envlab) == ROOT / "envlab/__init__.py"
    assert Path(assets) == ROOT / "source/envlab_assets/__init__.py"
