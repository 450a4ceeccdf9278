"""``envlab list``: our tasks, or those that a guest lists in their place."""

from __future__ import annotations

import pytest

from envlab.tools import listing
from envlab.training.flags import GuestFlags


def shown(folder: str, keyword: str | None) -> str:
    return f"tasks of {folder or 'what is installed'} with {keyword}"


@pytest.fixture
def _guest(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = GuestFlags(flags="unused:Flags", listing=f"{__name__}:shown", listing_help="others")
    monkeypatch.setattr(listing, "guest_flags", lambda: {"elsewhere": guest})


@pytest.mark.usefixtures("_guest")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--elsewhere"], "tasks of what is installed with None"),
        (["--elsewhere", "there", "--keyword", "Ant"], "tasks of there with Ant"),
    ],
)
def test_a_guest_lists_its_tasks(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listing.main(words) == 0
    assert capsys.readouterr().out == f"{told}\n"


def test_without_a_guests_flag_ours_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.main(["--keyword", "Isaac-Ant-v0"]) == 0
    assert "Isaac-Ant-v0" in capsys.readouterr().out
