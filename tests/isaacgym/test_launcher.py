"""``python -m envlab_isaacgym SCRIPT``: imports, old names, and mistakes in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envlab_isaacgym.launcher import main
from tests.launcher import run

SCRIPT = """
import isaacgym
from isaacgym import gymapi, gymtorch, gymutil
from isaacgym.torch_utils import *
from isaacgym.gymtorch import *
import sys
from neighbour import VALUE

import gym
import isaacgym.terrain_utils
from rl_games.common.a2c_common import A2CBase


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
agent = A2CBase.__new__(A2CBase)
agent.seq_length = 4
assert agent.seq_len == 4  # of the installed rl_games
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


def launch(
    folder: Path, text: str, *flags: str, script: str = "run.py", execute: bool = False
) -> tuple[int, str]:
    """Run a script by ``python -m envlab_isaacgym`` there; return its exit code and output."""
    (folder / script).write_text(text)
    words = [sys.executable, "-m", "envlab_isaacgym", *flags, script, "--task=x"]
    return run(words, folder, execute=execute)


def test_script_runs_as_itself_with_old_names_until_a_missing_method(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "neighbour.py").write_text("VALUE = 1\n")
    code, output = launch(tmp_path, SCRIPT, script="scripts/run.py")
    assert "[[1.0, 2.0, 3.0]]\n" in output
    assert code == 2
    assert "Gym.omni_disconnect is missing" not in output  # a gym under another name
    assert "\nerror: Gym.omni_disconnect is not implement" in f"\n{output}"


def test_scripts_of_one_gpu_run_on_the_cpu_if_asked(tmp_path):
    _, output = launch(tmp_path, OF_ONE_GPU, "--cpu")
    assert output.endswith("cpu cpu cpu cpu cpu (1, 1)\n")


def test_what_a_script_lacks_is_one_sentence(tmp_path):
    refusal = "Torch not compiled with CUDA enabled"  # in its own words
    chosen = (
        "import torch\n@torch.jit.script\ndef chosen(held):\n"
        "    return torch.where(held, held + 1, held)\n"
        "print(chosen(torch.tensor([0, 2])).tolist())\n"
    )
    for text, *sentences in (
        (
            f"\n\nraise AssertionError({refusal!r})\n",
            *("error: run.py:3 needs a GPU, and torch sees none here.", "--cpu SCRIPT"),
        ),
        (
            "import isaacgym\nimport isaacgymenvs_of_mine.tasks\n",
            "error: run.py:2 imports isaacgymenvs_of_mine, which is not installed",
        ),
        (chosen, "Start it with PYTORCH_JIT=0"),
        (
            "import torch\n@torch.jit.script\ndef drawn(device: str):\n"
            "    return torch.rand(2, device=device)\ndrawn('cuda:0')\n",
            "error: The script gives a GPU to functions that TorchScript compiled",
        ),
        (
            "import hydra\nfrom isaacgym import gymapi\n@hydra.main(version_base=None)\n"
            "def main(cfg):\n    params = gymapi.SimParams()\n    params.use_gpu_pipeline = True\n"
            "    gymapi.acquire_gym().create_sim(0, 0, gymapi.SIM_PHYSX, params)\n"
            "import sys\nsys.argv[1:] = []\nmain()\n",
            "error: SimParams.use_gpu_pipeline is set, but this machine has no NVIDIA GPU.",
        ),
    ):
        code, output = launch(tmp_path, text)
        assert code == 2
        assert [sentence for sentence in sentences if sentence not in output.splitlines()[-1]] == []
        assert "Traceback" not in output


def test_real_isaac_gym_is_never_replaced(tmp_path):
    (tmp_path / "isaacgym").mkdir()
    (tmp_path / "isaacgym" / "__init__.py").write_text("")
    code, output = launch(tmp_path, "print('ran')\n")
    assert code == 2
    assert output.startswith("error: Isaac Gym itself can be imported")
    assert "ran" not in output.split()


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
from rl_games.common.a2c_common import A2CBase
held = torch.tensor([0, 2])
print(A2CBase().seq_len, torch.where(held, held + 1, held).tolist())
try:
    T.Resize
except AttributeError:
    print("no transforms")
"""


@pytest.mark.long
def test_scripts_of_other_years_find_what_they_expect(tmp_path, monkeypatch):
    """Executed, because its packages replace those that forks have imported."""
    (tmp_path / "isaacgym").mkdir()  # without code, as beside CleanRL's script
    common = tmp_path / "rl_games/common"  # 1.1.4, which ASE wants, imports gym
    common.mkdir(parents=True)
    for folder in (common.parent, common):
        (folder / "__init__.py").touch()
    (common / "a2c_common.py").write_text(
        "import gym\nclass A2CBase:\n    seq_length = 4\n    box = gym.spaces.Box\n"
    )
    own = tmp_path / "rsl_rl/rsl_rl"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("IS_OWN = True\n")
    (own.parent / "setup.py").touch()
    (tmp_path / "scripts").mkdir()
    monkeypatch.setenv("PYTORCH_JIT", "0")  # so that conditions may be numbers
    script = "scripts/run.py"
    code, output = launch(tmp_path, OF_OTHER_YEARS, "--cpu", script=script, execute=True)
    assert code == 0, output
    assert "4 [0, 3]\n" in output
    assert "no transforms" not in output
    assert "rsl_rl is the checkout's own" in output


def test_windows_of_pictures_are_files_without_a_display(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install -e '.[isaacgym]'")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    text = (
        "import matplotlib\nfrom matplotlib import pyplot as plt\n"
        'matplotlib.use("TkAgg")\nplt.figure()\nprint(matplotlib.get_backend().lower())\n'
    )
    assert launch(tmp_path, text) == (0, "agg\n")
