"""What a run left out, at its end: one line for each reason, with the number of tests."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the reasons of all skips, the most frequent first; also where workers ran the tests."""
    counts = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if not counts:
        return
    terminalreporter.write_sep("=", "skipped, and what they need")
    for reason, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        terminalreporter.write_line(f"{count:4d}  {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return a skip's reason. A file that cannot be collected counts as one test."""
    assert isinstance(report.longrepr, tuple)
    reason = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
    return reason if isinstance(report, pytest.TestReport) else f"{reason} (a file)"
