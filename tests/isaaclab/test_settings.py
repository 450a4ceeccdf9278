"""Configurations of a project are composed without their ``__post_init__``, and written back."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from envlab.config import compose, to_dict
from envlab.errors import ConfigurationError
from envlab_isaaclab.settings import apply, settings_of


def term(env: Any) -> float:
    return 1.0


def other_term(env: Any) -> float:
    return 2.0


@dataclasses.dataclass
class Term:
    func: Callable[..., Any] = term
    weight: float = 1
    params: dict[str, Any] = dataclasses.field(default_factory=lambda: {"size": 2})
    scale: Any = dataclasses.field(default_factory=lambda: lambda value: value)


@dataclasses.dataclass
class Cfg:
    term: Term | None = dataclasses.field(default_factory=Term)
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])
    span: tuple[float, float] = (0.0, 1.0)
    decimation: int = 1
    missing: Any = dataclasses.field(default_factory=lambda: dataclasses.MISSING)

    def __post_init__(self) -> None:
        self.decimation = 4


def composed(*overrides: str) -> Any:
    return compose({"env": settings_of(Cfg())}, overrides)["env"]


def test_changes_reach_a_new_object_and_the_rest_stays() -> None:
    words = ["env.decimation=2", "env.term.weight=0.5", "env.span=[0.0,3.0]", "env.names=[b,c]"]
    settings = composed(*words, f"env.term.func={__name__}:other_term", "env.term.params.size=3")
    cfg = Cfg()
    apply(cfg, settings)
    assert cfg.decimation == 2
    assert cfg.term is not None
    assert (cfg.term.weight, cfg.term.params, cfg.term.func) == (0.5, {"size": 3}, other_term)
    assert (cfg.span, cfg.names) == ((0.0, 3.0), ["b", "c"])
    assert cfg.missing is dataclasses.MISSING
    assert cfg.term.scale(5) == 5


def test_null_takes_a_term_out() -> None:
    cfg = Cfg()
    apply(cfg, composed("env.term=null"))
    assert cfg.term is None


def test_ranks_can_send_them_and_a_file_can_hold_them() -> None:
    settings = composed("env.decimation=2")
    sent = pickle.loads(pickle.dumps(settings))
    assert to_dict(sent) == to_dict(settings)
    assert to_dict(settings)["term"]["func"] == f"{__name__}:term"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("env.decimation=1.5", r"env\.decimation must be a whole number"),
        ("env.term.wight=1", r"Did you mean env\.term\.weight\?"),
        ("env.names=3", r"env\.names must be a list"),
    ],
)
def test_wrong_types_and_names_are_refused(word: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        composed(word)


def test_code_that_no_file_can_hold_is_not_changed_by_a_text() -> None:
    with pytest.raises(ConfigurationError, match=r"env\.term\.scale is set to 'x:y'"):
        apply(Cfg(), composed("env.term.scale='x:y'"))
