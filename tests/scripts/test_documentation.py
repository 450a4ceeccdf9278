"""docs/tasks.md says what the tasks are now."""

from __future__ import annotations

import importlib.util

from tests.launcher import ROOT

SCRIPT = ROOT / "scripts/documentation/tasks.py"


def test_the_page_of_tasks_is_up_to_date():
    spec = importlib.util.spec_from_file_location("documentation_tasks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs/tasks.md").read_text()
    assert module.page() == written, "run: python scripts/documentation/tasks.py"
    assert all(f"### {task.id}\n" in written for task in module.pictured())
