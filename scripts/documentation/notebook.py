"""Run docs/notebook.ipynb and write its cells' output: python scripts/documentation/notebook.py.

The notebook's cells are edited in the file itself, by Jupyter or by hand. With ``--output`` it is
written elsewhere, as in the test.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"
LIMIT_S = 300
"""Limit of a cell's time, in seconds."""


def run(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with its cells' output; they run in an empty folder.

    Raises:
        CellExecutionError: If a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=LIMIT_S,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
        for cell in notebook.cells:
            _tidy(cell, folder)
    return notebook


def _tidy(cell: nbformat.NotebookNode, folder: str) -> None:
    """Remove output without later use: viewers that ended, and the folder."""
    cell.metadata.clear()
    kept = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            if "?token=" in output.text:
                continue
            output.text = output.text.replace(f"{folder}/", "")
        elif "text/html" in output.get("data", {}) and "<iframe" in output.data["text/html"]:
            continue
        elif "text/plain" in output.get("data", {}):
            output.data["text/plain"] = output.data["text/plain"].replace(f"{folder}/", "")
        kept.append(output)
    if "outputs" in cell:
        cell.outputs = kept


def main() -> None:
    """Run the notebook, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=NOTEBOOK, help="default: where it is")
    flags = parser.parse_args()
    nbformat.write(run(NOTEBOOK), flags.output)


if __name__ == "__main__":
    main()
