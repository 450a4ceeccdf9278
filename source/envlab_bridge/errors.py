"""Errors of other projects' scripts, in sentences that name the script's own line."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path


def own_line(error: Exception) -> str:
    """Return the last line of a script's own code that an error passed through."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((sys.prefix, sys.base_prefix, "<"))
        and not any(part.startswith("envlab") for part in Path(frame.filename).parent.parts[-1:])
    ]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "The script"


def not_installed(error: ImportError) -> str:
    """Return a remedy if a script needs a package, or a name of one, that is not installed."""
    package = str(error.name).partition(".")[0]
    if isinstance(error, ModuleNotFoundError):
        return (
            f"{own_line(error)} imports {error.name}, which is not installed. Install {package} "
            "as the script's own instructions say, or, if it is the script's, put its folder on "
            "PYTHONPATH."
        )
    return (
        f"{own_line(error)}: {str(error).partition(' (')[0]}: the installed {package} lacks "
        "it. The script's instructions may name another release or the project's fork."
    )
