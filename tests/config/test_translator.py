"""A table says what becomes of the keys of another project's file."""

from __future__ import annotations

from typing import Any

import pytest

from envlab.config.translator import NoEffect, Refuse, Take, Translator, override
from envlab.errors import ConfigurationError
from tests.refusals import check_refusals

VALUES: dict[str, Any] = {
    "algorithm": {"gamma": "0.9", "batch": 1e2, "gama": 1, "wandb": True, "off": False},
    "nets": {"actor": {"std": 0.5}, "sizes": [8, 4]},
    "rest": {"a": {"b": 1}},
    "flat": 5,
}
ROWS = {
    "algorithm.gamma": Take("agent.discount", Translator.number, note="counts steps"),
    "algorithm.batch": Take("agent.batch_size", Translator.count),
    "algorithm.beta": Take("agent.beta", Translator.number, 0.5),
    "algorithm.epochs": Take("agent.epochs", Translator.count),
    "algorithm.wandb": NoEffect("add --logger=wandb"),
    "flat.inner": NoEffect("it is no part"),
    "nets.*.std": NoEffect("networks have no noise"),
    "nets.sizes": Refuse("networks are fixed here: leave it out", unless=([8, 4],)),
}


def file_of(values: dict[str, Any] = VALUES) -> Translator:
    return Translator(values, peer="peer", file="a.yaml", cure="Set {key}.")


def test_a_row_takes_a_key_as_a_setting_or_says_why_it_has_no_effect():
    file = file_of()
    expected = {"agent.discount": 0.9, "agent.batch_size": 100, "agent.beta": 0.5}
    assert file.translated(ROWS) == expected
    assert file.lines() == [
        "[peer] a.yaml: algorithm.gamma: counts steps",
        "[peer] a.yaml: algorithm.gama has no effect: nothing here is like it",
        "[peer] a.yaml: algorithm.wandb has no effect: add --logger=wandb",
        "[peer] a.yaml: nets.actor.std has no effect: networks have no noise",
        "[peer] a.yaml: rest has no effect: nothing here is like it",
        "[peer] a.yaml: flat has no effect: nothing here is like it",
    ]
    assert file.part("rest").part("a").count("b") == 1
    assert "rest" not in file.report()
    misspelt = file_of({"algorithm": {"gama": 1}})
    misspelt.translated(ROWS)
    assert misspelt.report()["algorithm.gama"].endswith("like it. Did you mean gamma?")


def test_other_keys_of_a_file_can_stay_as_they_are():
    file = file_of({"a": {"old": 1, "new": 2}, "b": {"kept": None, "quiet": 3}})
    rows = {"a.old": Take("a.new"), "a.new": Take("c"), "b.quiet": NoEffect("it is quiet")}
    assert file.rewritten(rows) == {"a": {"new": 1}, "b": {"kept": None}, "c": 2}
    assert [line.partition(": ")[2] for line in file.lines()] == [
        *("a.old is a.new", "a.new is c"),
        "b.quiet has no effect: it is quiet",
    ]


def test_what_cannot_be_taken_is_one_sentence_with_file_key_and_value():
    def read(method: str, value: Any, *arguments: Any) -> None:
        known = {"known": ("tanh",)} if method == "choice" else {}
        getattr(file_of({"a": {"b": value}}).part("a"), method)("b", *arguments, **known)

    check_refusals(
        read,
        [
            ("number", "x", r"^a\.b in a\.yaml is 'x', but must be a number of at least 0\. Set a"),
            ("number", float("nan"), "must be a number of at least 0"),
            ("number", 1e400, "must be a number"),
            ("whole", 1.5, "must be a whole number"),
            ("count", 0, "at least 1"),
            ("flag", 1, "must be true or false"),
            ("text", 1, "must be a text"),
            ("mapping", 1, "must be a dictionary"),
            ("sizes", [4, 0], "must be a list of whole numbers"),
            ("choice", "tahn", r"must be one of 'tanh'\. Did you mean tanh\? Set a"),
            ("refuse", 2, "none is wanted", 1, r"is 2, but none is wanted\. Set a\.b\.$"),
        ],
    )
    with pytest.raises(ConfigurationError, match=r"sizes in a\.yaml is 8, but .*leave it out\.$"):
        file_of({"nets": {"sizes": 8}}).translated(ROWS)


def test_a_setting_is_a_word_of_the_command_line():
    words = (("a.b", "x'y", r"a.b='x\'y'"), ("a", {"b": [1, None]}, "++a={b:[1,null]}"))
    for path, value, word in words:
        assert override(path, value) == word
