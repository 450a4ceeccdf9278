"""The system's tools that tests need, which they name by ``@pytest.mark.tools("rsync")``.

Without one of them the test is skipped, and says what installs it. Where .ci/run has installed them
it sets ``ENVLAB_TEST_TOOLS=required``, and the test fails.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

REQUIRED = "ENVLAB_TEST_TOOLS"


@dataclass(frozen=True)
class Tool:
    """A line of ``system_tools.txt``."""

    names: tuple[str, ...]
    """Programs, of which any will do; the first names the tool."""
    package: str | None
    """Debian's package of it; None: not among those that .ci/run installs."""
    remedy: str
    """What installs it."""

    @property
    def path(self) -> str | None:
        """The program; None where it is missing."""
        return next(filter(None, map(shutil.which, self.names)), None)


def read_tools(text: str) -> dict[str, Tool]:
    """Return the tools that a text in the form of ``system_tools.txt`` lists, by their names."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        names, package, *remedy = line.split(maxsplit=2)
        of_debian = None if package == "-" else package
        tool = Tool(tuple(names.split("|")), of_debian, *(remedy or [f"apt-get install {package}"]))
        found[tool.names[0]] = tool
    return found


TOOLS = read_tools(Path(__file__).with_name("system_tools.txt").read_text())


def find(name: str) -> str | None:
    """Return the path of a tool's program; None where it is missing."""
    return TOOLS[name].path


def needs(names: list[str]) -> str:
    """Return the sentence of a test that misses tools: which, and what installs them."""
    packages = sorted({package for name in names if (package := TOOLS[name].package)})
    remedies = [f"apt-get install {' '.join(packages)}"] if packages else []
    remedies += [TOOLS[name].remedy for name in names if TOOLS[name].package is None]
    hidden = [name for name in names if shutil.which(name, path="/usr/sbin")]
    if hidden == names:  # as for Debian's users other than root
        remedies = ["export PATH=$PATH:/usr/sbin"]
    return f"needs {', '.join(names)}: {'; '.join(remedies)}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test, before its fixtures, where a tool of its marker is missing, or let it fail."""
    names = sorted({name for mark in item.iter_markers("tools") for name in mark.args})
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        pytest.fail(f"not in tests/system_tools.txt: {', '.join(unknown)}", pytrace=False)
    missing = [name for name in names if find(name) is None]
    is_required = os.environ.get(REQUIRED) == "required"
    if is_required and any(TOOLS[name].package for name in missing):
        pytest.fail(needs(missing), pytrace=False)
    if missing:
        pytest.skip(needs(missing))
