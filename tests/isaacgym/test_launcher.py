"""``python -m envlab_isaacgym SCRIPT``: imports, old names, and mistakes in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envlab_isaacgym.launcher import main
from tests.launcher import ROOT

SCRIPT = """
import isaacgym
from isaacgym import gymapi, gymtorch, gymutil
from isaacgym.torch_utils import *
from isaacgym.gymtorch import *
import sys
from neighbour import VALUE

import gym
import isaacgym.terrain_utils


class Walker(gym.Env):
    num_obs = 48

    def reset(self):
        return "obs"

    def render(self, mode):
        return mode


walker = gym.Wrapper(Walker())
assert walker.num_obs == 48 and not hasattr(walker, "num_actions")
assert walker.reset() == "obs" and walker.render(mode="rgb_array") == "rgb_array"
assert "envlab" in gymapi.__file__
assert np.float is float and np.Inf == float("inf")
assert VALUE == 1 and sys.argv[1:] == ["--task=x"] and __name__ == "__main__"


@torch.jit.script
def compiled(quat, vector):
    # type: (Tensor, Tensor) -> Tensor
    roll, pitch, yaw = get_euler_xyz(quat)
    turned = quat_mul(quat, quat_from_euler_xyz(roll, pitch, yaw))
    return quat_rotate_inverse(normalize(turned), quat_apply(quat, vector))


print(compiled(torch.tensor([[0.0, 0, 0, 1]]), torch.tensor([[1.0, 2, 3]])).tolist())
gymapi.acquire_gym().omni_disconnect()
"""


OF_ONE_GPU = """
import isaacgym
import torch
from isaacgym import gymapi, gymutil

kind, index = gymutil.parse_device_str("cuda:0")
params = gymapi.SimParams()
params.use_gpu_pipeline = True
sim = gymapi.acquire_gym().create_sim(index, index, gymapi.SIM_PHYSX, params)
layer = torch.nn.Linear(2, 1).to("cuda:0")
torch.serialization.location_tag = lambda storage: "cuda:0"
torch.save(torch.ones(1), "of_gpu.pt")
read = torch.load("of_gpu.pt")
values = [torch.ones(1, 2, device="cuda:0"), layer.weight.cuda(), read, sim]
print(kind, *(str(value.device) for value in values), tuple(layer(values[0]).shape))
"""
"""A script that names a GPU, and has no flag for another device."""


def launch(*words: str, path: str = "", cwd: str) -> subprocess.CompletedProcess[str]:
    import os

    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), path))}
    command = [sys.executable, "-m", "envlab_isaacgym", *words]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_script_runs_as_itself_with_old_names_until_a_missing_method(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "run.py").write_text(SCRIPT)
    (tmp_path / "scripts" / "neighbour.py").write_text("VALUE = 1\n")
    result = launch("scripts/run.py", "--task=x", cwd=str(tmp_path))
    assert result.stdout == "[[1.0, 2.0, 3.0]]\n", result.stderr
    assert result.returncode == 2
    assert "Gym.omni_disconnect is missing" not in result.stderr  # a gym under another name
    assert result.stderr.splitlines()[-1].startswith("error: Gym.omni_disconnect is not implement")


def test_scripts_of_one_gpu_run_on_the_cpu_if_asked(tmp_path):
    (tmp_path / "run.py").write_text(OF_ONE_GPU)
    result = launch("--cpu", "run.py", cwd=str(tmp_path))
    assert result.stdout == "cpu cpu cpu cpu cpu (1, 1)\n", result.stderr


def test_scripts_that_want_a_gpu_are_refused_with_the_flag_named(tmp_path):
    refusal = "Torch not compiled with CUDA enabled"  # in its own words
    (tmp_path / "run.py").write_text(f"\n\nraise AssertionError({refusal!r})\n")
    result = launch("run.py", cwd=str(tmp_path))
    assert result.returncode == 2
    (message,) = result.stderr.splitlines()
    assert message.startswith("error: run.py:3 wants a GPU, and torch sees none here.")
    assert "--cpu SCRIPT" in message


def test_agents_have_seq_len_and_conditions_may_be_numbers_without_torchscript(
    tmp_path, monkeypatch
):
    (tmp_path / "run.py").write_text(
        "import torch\n"
        "from rl_games.common.a2c_common import A2CBase\n"
        "agent = A2CBase.__new__(A2CBase)\n"
        "agent.seq_length = 4\n"
        "print(agent.seq_len)\n"
        "@torch.jit.script\n"
        "def chosen(held):\n"
        "    return torch.where(held, held + 1, held)\n"
        "print(chosen(torch.tensor([0, 2])).tolist())\n"
    )
    result = launch("run.py", cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (2, "4\n"), result.stderr
    assert "Start it with PYTORCH_JIT=0" in result.stderr.splitlines()[-1]
    monkeypatch.setenv("PYTORCH_JIT", "0")
    result = launch("run.py", cwd=str(tmp_path))
    assert result.stdout == "4\n[0, 3]\n", result.stderr


def test_rl_games_of_those_years_finds_gym(tmp_path):
    """rl_games 1.1.4, which ASE and CALM want, imports gym wherever it is imported."""
    common = tmp_path / "rl_games/common"
    common.mkdir(parents=True)
    for folder in (common.parent, common):
        (folder / "__init__.py").touch()
    (common / "a2c_common.py").write_text(
        "import gym\nclass A2CBase:\n    seq_length = 4\n    box = gym.spaces.Box\n"
    )
    (tmp_path / "run.py").write_text(
        "from rl_games.common.a2c_common import A2CBase\nprint(A2CBase().seq_len)\n"
    )
    result = launch("run.py", path=str(tmp_path), cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (0, "4\n"), result.stderr


def test_real_isaac_gym_is_never_replaced(tmp_path):
    (tmp_path / "isaacgym").mkdir()
    (tmp_path / "isaacgym" / "__init__.py").write_text("")
    (tmp_path / "run.py").write_text("print('ran')\n")
    result = launch("run.py", path=str(tmp_path), cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: Isaac Gym itself can be imported")


@pytest.mark.parametrize("words", [["nowhere.py"], ["--rsl-rl-2", "run.py"]])
def test_mistaken_command_lines_are_one_sentence(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: There is no script {words[0]!r}.")


def test_help_is_printed(capsys):
    assert main([]) == 0
    assert "usage: python -m envlab_isaacgym" in capsys.readouterr().out


OF_OTHER_YEARS = """
import gym
import isaacgym
import numpy as np
import torch
import torchvision.transforms as T


class Task:  # no environment of gym's
    num_envs = 2

    def reset(self):
        return {"obs": 1}

    def step(self, action):
        return {"obs": 2}, 0.0, False, {}


class Seen(gym.ObservationWrapper):
    def observation(self, obs):
        return obs["obs"]


seen = Seen(Task())
assert (seen.reset(), seen.step(0)[0], seen.num_envs) == (1, 2, 2)
assert torch.nn.GRU(input_size=np.int64(3), hidden_size=np.int64(2)).input_size == 3
assert torch.cuda.mem_get_info("cuda:0")[1] > 0
assert torch.abs(torch.tensor([True, False])).tolist() == [True, False]
import rsl_rl
assert rsl_rl.IS_OWN
try:
    T.Resize
except AttributeError:
    print("no transforms")
"""


def test_scripts_of_other_years_find_what_they_expect(tmp_path):
    (tmp_path / "isaacgym").mkdir()  # without code, as beside CleanRL's script
    own = tmp_path / "rsl_rl/rsl_rl"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("IS_OWN = True\n")
    (own.parent / "setup.py").touch()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/run.py").write_text(OF_OTHER_YEARS)
    result = launch("--cpu", "scripts/run.py", cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "rsl_rl is the checkout's own" in result.stderr


def test_a_package_that_is_missing_is_one_sentence(tmp_path):
    (tmp_path / "run.py").write_text("import isaacgym\nimport isaacgymenvs_of_mine.tasks\n")
    result = launch("run.py", cwd=str(tmp_path))
    assert result.returncode == 2
    message = result.stderr.splitlines()[-1]
    assert message.startswith(
        "error: run.py:2 imports isaacgymenvs_of_mine, which is not installed"
    )
    assert "Traceback" not in result.stderr


def test_windows_of_pictures_are_files_without_a_display(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[isaacgym]'")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run.py").write_text(
        "import matplotlib\n"
        "from matplotlib import pyplot as plt\n"
        'matplotlib.use("TkAgg")\n'
        "plt.figure()\n"
        "print(matplotlib.get_backend().lower())\n"
    )
    result = launch("run.py", cwd=str(tmp_path))
    assert (result.returncode, result.stdout) == (0, "agg\n"), result.stderr
