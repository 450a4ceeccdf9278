from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import ClassVar
from unittest import mock

import pytest
import yaml
from config_sample import AgentCfg, BalanceEnvCfg, EveryTypeCfg, RewardTermCfg

from envlab.config import Trust, compose, load_yaml, read_yaml, write_yaml
from envlab.errors import ConfigurationError

AWKWARD_TEXT = [
    *("1e-3", "1e5", "-1E+2", ".5", "5.", "+.inf", ".nan", "0x1F", "0o17", "017", "-08", "1_000"),
    *("yes", "no", "on", "off", "true", "False", "null", "~", "", " ", "1:30", "2026-01-31", "<<"),
    *("=", "- a", "a: b", "#c", "a #c", "'", '"', "a\nb", "tab\t", "é", "[x", "{y", "%", "@", "!t"),
    "x" * 300 + " y" * 100,
]
AWKWARD_FLOATS = [1e-05, 1e20, 1e16, 1e-300, 5e-324, 0.1, 1 / 3, -0.0, 2.0, math.inf, -math.inf]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "params" / "env.yaml"


def test_a_composed_config_comes_back_exactly(path, roots):
    overrides = [
        "env.sim.dt=1e-05",
        "env.events.push_robot=null",
        "+env.rewards.alive.params.new=1e-7",
        "~env.rewards.joint_vel.params.limit",
    ]
    env = compose(roots, overrides)["env"]
    write_yaml(path, env)
    assert read_yaml(path, BalanceEnvCfg) == env
    back = read_yaml(path, BalanceEnvCfg())
    assert back == env
    assert type(back.rewards) is type(env.rewards)


def test_every_type_comes_back_exactly(path):
    cfg = EveryTypeCfg(required=2, terms=[RewardTermCfg()] * 2, scale={"hinge": 1e-9})
    write_yaml(path, cfg)
    assert read_yaml(path, EveryTypeCfg) == cfg
    assert read_yaml(path, EveryTypeCfg(required=0)) == cfg


def test_awkward_scalars_come_back_here_and_in_plain_yaml(path):
    keys = dict.fromkeys(AWKWARD_TEXT, 1)
    values = {"texts": AWKWARD_TEXT, "floats": AWKWARD_FLOATS, "keys": keys}
    write_yaml(path, values)
    for back in (load_yaml(path), yaml.safe_load(path.read_text(encoding="utf-8"))):
        assert back == values
        assert [repr(number) for number in back["floats"]] == [repr(n) for n in AWKWARD_FLOATS]
    write_yaml(path, {"nan": math.nan})
    assert math.isnan(load_yaml(path)["nan"])


def test_the_file_reads_like_the_config(path):
    write_yaml(path, AgentCfg())
    assert path.read_text() == (
        "max_iterations: 150\nrun_name: ''\nhidden_dims: [32, 32]\n"
        "algorithm:\n  learning_rate: 0.001\n  schedule: adaptive\n"
    )


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    write_yaml(path, AgentCfg())
    before = path.read_text()
    monkeypatch.setattr("os.replace", mock.Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_yaml(path, AgentCfg(max_iterations=1))
    assert path.read_text() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["env.yaml"]


def test_a_part_of_a_config_is_taken_over_the_target(path):
    write_yaml(path, {"scene": {"num_envs": 2}})
    env = read_yaml(path, BalanceEnvCfg(seed=3))
    assert (env.scene.num_envs, env.seed) == (2, 3)


BAD = {
    "is not valid YAML: line 2, column 2: did not find expected ',' or ']'": "a: [1, 2\nb: 3\n",
    "line 3, column 3: the key 'dt' is there twice": "sim:\n  dt: 1\n  dt: 2\n",
    "holds list, not keys and values": "- 1\n",
    "could not determine a constructor for the tag": "a: !!python/object:os.system {}\n",
    "it nests too deeply": "a: " + "[" * 3000,
    "a number has 5000 digits": f"seed: {'9' * 5000}\n",
    "has more than 64 bits": f"sim: {{dt: {'9' * 30}}}\n",
    "line 1, column 12: the alias *a is inside the value that it repeats": "a: &a {me: *a}\n",
    "a value does not fit its tag (ValueError: ": "a: !!int foo\n",
    "a value does not fit its tag": "a: !!timestamp 2020-99-99\n",
    "does not fit: There is no 'env.sim.d'. Did you mean env.sim.dt?": "sim:\n  d: 1\n",
    "env.sim.dt must be a number (float), but is 'fast'": "sim:\n  dt: fast\n",
}


def test_a_bad_file_is_one_sentence(path):
    path.parent.mkdir()
    for said, text in BAD.items():
        path.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            read_yaml(path, BalanceEnvCfg)
        assert said in str(caught.value)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("repeat", ["[*{0}, *{0}]", "{{<<: [*{0}, *{0}]}}"])
def test_aliases_that_mean_billions_of_values_are_refused(path, repeat):
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {repeat.format(f'a{i - 1}')}" for i in range(1, 40))]
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match="there are more than 100000 values"):
        load_yaml(path)


def test_only_regular_files_of_a_possible_size_are_read(path):
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*not a regular file"):
        load_yaml(path)
    path.unlink()
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*1099511627776 bytes"):
        load_yaml(path)


def test_a_reference_that_needs_an_absent_package_is_one_sentence(path, monkeypatch):
    (path.parent.parent / "needy.py").write_text("import absent_package\n")
    monkeypatch.syspath_prepend(path.parent.parent)
    write_yaml(path, {"rewards": {"alive": {"func": "needy:alive"}}})
    with pytest.raises(ConfigurationError, match="imported here: No module named 'absent_package'"):
        read_yaml(path, BalanceEnvCfg, trust=Trust(modules=frozenset({"needy"})))


def test_a_missing_file_and_a_folder_are_one_sentence(path):
    with pytest.raises(ConfigurationError, match="There is no file"):
        load_yaml(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_yaml(path.parent.parent)


def test_hand_written_yaml_is_read_as_yaml_1_2(path):
    path.parent.mkdir()
    path.write_text(
        "lr: 1e-3\neps: 5e-4\nbig: 1E5\nint: 010\nhex: 0x1F\nyes: on\nday: 2026-01-31\nnone: ~\n"
        "base: &base {a: 1, b: 2}\nderived: {<<: *base, b: 3}\n"
    )
    assert load_yaml(path) == {
        **{"lr": 0.001, "eps": 0.0005, "big": 1e5, "int": 10, "hex": 31, "yes": "on"},
        **{"day": "2026-01-31", "none": None, "base": {"a": 1, "b": 2}},
        "derived": {"a": 1, "b": 3},
    }
    path.write_text("")
    assert load_yaml(path) == {}


@dataclass(kw_only=True)
class Lens:
    """An inner part."""

    __former_names__: ClassVar[dict[str, str | None]] = {"kind": "type", "tint": None}
    type: str = "wide"
    history: int = 1


@dataclass(kw_only=True)
class Eyes:
    """A part, one setting of which moved into another."""

    __former_names__: ClassVar[dict[str, str]] = {"stack": "lens.history"}
    lens: Lens = field(default_factory=Lens)


def test_files_of_earlier_versions_are_read_under_the_names_of_today(tmp_path):
    path = tmp_path / "env.yaml"
    path.write_text("stack: 3\nlens: {kind: long, tint: red}")
    for target in (Eyes, Eyes()):
        assert read_yaml(path, target) == Eyes(lens=Lens(type="long", history=3))
    path.write_text("stack: 3\nlens: {type: long, history: 2}")
    assert read_yaml(path, Eyes).lens.history == 2
    path.write_text("lens: {tind: red}")
    with pytest.raises(ConfigurationError, match="tind"):
        read_yaml(path, Eyes)
