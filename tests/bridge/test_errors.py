"""Errors of other projects' scripts name the script's own last line."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from envlab_bridge.errors import not_installed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import no_such_package.part", "imports no_such_package, which is not installed."),
        ("from json import no_such_name", "the installed json lacks it."),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_imports_it(
    tmp_path: Path, line: str, said: str
):
    script = tmp_path / "train.py"
    script.write_text(f"def load():\n    {line}\n\nload()\n")
    with pytest.raises(ImportError) as caught:
        runpy.run_path(str(script))
    sentence = not_installed(caught.value)
    assert re.match(rf"{re.escape(str(script))}:2\b", sentence)
    assert said in sentence
