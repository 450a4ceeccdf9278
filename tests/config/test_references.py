from __future__ import annotations

import functools
import math

import pytest
from config_sample import Network, is_alive

from envlab.config import reference_of, resolve
from envlab.errors import ConfigurationError


@pytest.mark.parametrize("obj", [is_alive, Network, math.sqrt])
def test_a_reference_leads_back_to_its_object(obj):
    assert resolve(reference_of(obj)) == obj


@pytest.mark.parametrize("obj", [lambda: 0, functools.partial(is_alive), Network()])
def test_what_no_name_leads_to_is_refused(obj):
    with pytest.raises(ConfigurationError, match="no module:name leads to it"):
        reference_of(obj)


def test_a_local_function_is_refused():
    def local():
        pass

    with pytest.raises(ConfigurationError, match="top level of a module"):
        reference_of(local)


@pytest.mark.parametrize("text", ["sqrt", ":sqrt", "math:", "math:<lambda>", ""])
def test_text_without_module_and_name_is_refused(text):
    with pytest.raises(ConfigurationError, match="Write module:name"):
        resolve(text)


def test_a_missing_module_or_name_is_named():
    with pytest.raises(ConfigurationError, match="there is no module 'no_such_module'"):
        resolve("no_such_module.mdp:f")
    with pytest.raises(ConfigurationError, match=r"has no 'sqr'\. Did you mean sqrt"):
        resolve("math:sqr")
    with pytest.raises(ConfigurationError, match="no absolute module name"):
        resolve(".mdp:f")


def test_an_error_inside_the_module_passes_through(tmp_path, monkeypatch):
    (tmp_path / "module_with_a_bug.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        resolve("module_with_a_bug:f")
