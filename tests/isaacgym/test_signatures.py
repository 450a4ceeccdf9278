"""Names, parameters and defaults are those of the public type stubs, isaacgym-stubs 1.1rc4."""

from __future__ import annotations

import dataclasses
import enum
import inspect

import pytest

from envlab_isaacgym import gymapi
from envlab_isaacgym.gym.missing import MISSING, NEEDS
from tests.isaacgym import stubs
from tests.launcher import ROOT

METHODS = {name: nodes for name, nodes in stubs.methods("Gym").items() if name != "__init__"}


def test_stubs_are_those_that_were_counted():
    counts = len(stubs.methods("Gym")), len(stubs.classes()), len(stubs.constants())
    assert counts == (313, 64, 191)


def test_methods_and_their_parameters_are_those_of_the_stubs():
    own = {name for name in dir(gymapi.Gym) if not name.startswith("_")}
    assert own == set(METHODS)
    wrong = {name: why for name in METHODS if (why := _difference(name))}
    assert not wrong


def _difference(name: str) -> str:
    """Return how a method's parameters differ from those of the stubs' overloads."""
    own = list(inspect.signature(getattr(gymapi.Gym, name)).parameters.values())[1:]
    by_name = [one.name for one in own if one.kind is not one.POSITIONAL_ONLY]
    count = len(own), sum(one.default is one.empty for one in own)
    accepted = []
    for node in METHODS[name]:
        if node.args.vararg is not None:  # the stubs do not know
            return ""
        given = node.args.args[1:]
        accepted.append((len(given), len(given) - len(node.args.defaults)))
        keywords = [one.arg for one in given if not one.arg.startswith("arg")]
        if keywords != by_name:
            return f"by name {by_name}, in the stubs {keywords}"
    return "" if count in accepted else f"parameters, required: {count}, in the stubs {accepted}"


def test_classes_have_the_attributes_and_methods_of_the_stubs():
    missing = {}
    for name in stubs.classes():
        own = getattr(gymapi, name)
        is_record = dataclasses.is_dataclass(own) and name not in ("Asset", "Env", "Sim", "Viewer")
        has = {one.removesuffix("_") for one in dir(own() if is_record else own)}
        wanted = stubs.attributes(name) | set(stubs.methods(name))
        wanted = {one.removesuffix("_") for one in wanted if not one.startswith("__")}
        if issubclass(own, enum.IntEnum):
            wanted.discard("name")  # which members have
        if wanted - has:
            missing[name] = wanted - has
    assert not missing


def test_constants_have_the_values_of_the_stubs_and_functions_their_names():
    assert not {name for name in stubs.functions() if not hasattr(gymapi, name)}
    for name, node in stubs.constants().items():
        value = getattr(gymapi, name)
        if node.value is not None:
            assert value == eval(compile(stubs.ast.Expression(node.value), "stub", "eval"))
        else:
            kind = stubs.ast.unparse(node.annotation)
            assert kind == "int" or type(value).__name__ == kind


def test_missing_methods_name_the_feature_they_need():
    for name in MISSING:
        method = getattr(gymapi.acquire_gym(), name)
        parameters = inspect.signature(method).parameters.values()
        required = [None for one in parameters if one.default is one.empty]
        with pytest.raises(NotImplementedError, match=rf"Gym\.{name} is not implemented: it needs"):
            method(*required)


def test_page_counts_the_missing_methods():
    page = (ROOT / "docs" / "isaacgym.md").read_text()
    for need, missing in NEEDS.items():
        assert f"| {need} | {len(missing)} |\n" in page
