"""Print what pyproject.toml requires, for a layer that does not change with every line of code.

Its argument is a comma-separated list of extras.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: str) -> list[str]:
    """Return the dependencies, and those of comma-separated extras.

    Raises:
        SystemExit: If there is no such extra.
    """
    project = tomllib.loads(pyproject.read_text())["project"]
    known = project["optional-dependencies"]
    found = list(project["dependencies"])
    for extra in filter(None, extras.split(",")):
        if extra not in known:
            raise SystemExit(f"There is no extra {extra!r}; there are {', '.join(known)}.")
        for requirement in known[extra]:
            own = re.fullmatch(r"envlab\[(.+)\]", requirement)
            found += requirements(pyproject, own[1]) if own else [requirement]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    at = next(path for path in (here, here.parent) if (path / "pyproject.toml").is_file())
    print("\n".join(requirements(at / "pyproject.toml", sys.argv[1])))
