from __future__ import annotations

import functools
import math

import pytest
from config_sample import BalanceEnvCfg, Network, is_alive

from envlab.config import Trust, parse_overrides, read_yaml, reference_of, resolve, texts_of
from envlab.errors import ConfigurationError


def test_a_reference_leads_back_to_its_object():
    for obj in (is_alive, Network, math.sqrt):
        assert resolve(reference_of(obj)) == obj


def test_an_object_without_a_name_and_text_without_one_are_refused():
    def local():
        pass

    for obj in (lambda: 0, functools.partial(is_alive), Network()):
        with pytest.raises(ConfigurationError, match="no module:name leads to it"):
            reference_of(obj)
    with pytest.raises(ConfigurationError, match="top level of a module"):
        reference_of(local)
    for text in ("sqrt", ":sqrt", "math:", "math:<lambda>", ""):
        with pytest.raises(ConfigurationError, match="Write module:name"):
            resolve(text)


def test_a_missing_module_or_name_is_named():
    for text, sentence in (
        ("no_such_module.mdp:f", "there is no module 'no_such_module'"),
        ("math:sqr", r"has no 'sqr'\. Did you mean sqrt"),
        (".mdp:f", "not an absolute module name"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            resolve(text)


def test_an_error_inside_the_module_passes_through(tmp_path, monkeypatch):
    (tmp_path / "module_with_a_bug.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        resolve("module_with_a_bug:f")


@pytest.fixture
def suites(tmp_path, monkeypatch):
    """A trusted package that imports others' code, and a module that must not be imported."""
    package = tmp_path / "my_suite"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, functools\nfrom os import system\ndef term(env): ...\nclass Terms:\n"
        "    @staticmethod\n    def alive(env): ...\npart = functools.partial(system, 'true')\n"
    )
    (package / "terms.py").write_text("def term(env): ...\n")
    (tmp_path / "my_suite_of_others.py").write_text("raise RuntimeError('it was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return Trust(modules=frozenset({"my_suite"}))


def test_a_file_may_name_definitions_of_a_trusted_package(suites):
    for text in ("my_suite:term", "my_suite.terms:term", "my_suite:Terms.alive"):
        assert suites.resolve(text) == resolve(text)


def test_a_file_may_name_nothing_else(suites):
    for text in ("my_suite:term.__class__", "my_suite:term.__globals__.get"):
        with pytest.raises(ConfigurationError, match="names something private"):
            suites.resolve(text)
    for text, module in {
        "my_suite_of_others:term": "my_suite_of_others",  # only the beginning of the name
        "os:system": "os",
        "my_suite:system": "posix",
        "my_suite:os.system": "os",
        "my_suite:part": "functools",
    }.items():
        with pytest.raises(ConfigurationError, match=rf"names code of {module}, .*add --trust "):
            suites.resolve(text)


def test_a_name_of_a_module_that_is_part_of_another_now_is_found_in_its_package(suites):
    from envlab.envs import mdp

    assert resolve("envlab.envs.mdp.limits:joint_vel_limits") is mdp.joint_vel_limits
    assert suites.resolve("my_suite.gone:term") is resolve("my_suite:term")
    with pytest.raises(ConfigurationError, match=r"there is no module 'my_suite\.gone'"):
        suites.resolve("my_suite.gone:term_of_another_suite")
    with pytest.raises(ConfigurationError, match="names code of my_suite, "):
        Trust(modules=frozenset({"my_suite.gone"})).resolve("my_suite.gone:term")


def test_a_file_may_name_objects_that_the_user_named_too(suites):
    words = ["env.rewards.alive.func=my_suite:term", "env.b={c: [math:sqrt]}"]
    trust = Trust(named=texts_of(parse_overrides(words)))
    assert trust.resolve("my_suite:term") == resolve("my_suite:term")
    assert trust.resolve("math:sqrt") is math.sqrt
    with pytest.raises(ConfigurationError, match="names code of my_suite"):
        trust.resolve("my_suite.terms:term")


def test_a_file_keeps_names_that_the_configuration_has_already(tmp_path):
    (tmp_path / "env.yaml").write_text("rewards: {alive: {func: config_sample:is_alive}}")
    assert read_yaml(tmp_path / "env.yaml", BalanceEnvCfg()).rewards.alive.func is is_alive
    (tmp_path / "env.yaml").write_text("rewards: {alive: {func: config_sample:joint_velocity}}")
    sentence = r"env.rewards.alive.func: .* --trust config_sample"
    with pytest.raises(ConfigurationError, match=sentence):
        read_yaml(tmp_path / "env.yaml", BalanceEnvCfg())
    trust = Trust(modules=frozenset({"config_sample"}))
    cfg = read_yaml(tmp_path / "env.yaml", BalanceEnvCfg(), trust=trust)
    assert cfg.rewards.alive.func.__name__ == "joint_velocity"


def test_a_file_cannot_copy_environment_variables(tmp_path):
    (tmp_path / "env.yaml").write_text('sim: {backend: "${oc.env:HOME}"}')
    with pytest.raises(ConfigurationError, match=r"env.sim.backend is '\$\{oc.env:HOME\}', but a"):
        read_yaml(tmp_path / "env.yaml", BalanceEnvCfg())
