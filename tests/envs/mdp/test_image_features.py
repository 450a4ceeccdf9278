"""Features of images by trained networks: values by hand, torchvision's names, what is refused."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError
from tests.envs import hopper
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import group, rank, terms
from tests.envs.test_camera import hopper_cfg


class Brightest(nn.Module):
    """The largest value of each channel, of images 24 pixels wide."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert images.shape[3] == 24
        return images.amax((2, 3))


@pytest.fixture
def network(tmp_path: Path) -> str:
    torch.jit.script(Brightest()).save(tmp_path / "brightest.pt")
    return str(tmp_path / "brightest.pt")


def cfg_with(num_envs: int = 2, **params) -> ManagerEnvCfg:
    cfg = hopper_cfg(SceneCfg(num_envs=num_envs, model=hopper.MODEL))
    params = {"sensor_cfg": SceneEntityCfg("eye")} | params
    cfg.observations = terms(policy=group(seen=observation(mdp.image_features, **params)))
    return cfg


def make(cfg: ManagerEnvCfg) -> ManagerEnv:
    return ManagerEnv(cfg, context=rank(0, 1), seed=0)


def test_features_are_those_of_each_image_of_the_history(network: str):
    env = make(cfg_with(model_name=network))
    images = env.sensor_manager.get_term("eye").image("rgb")  # (2, 24, 24, 2 x 3)
    assert env.obs_buf["policy"].shape == (2, 6)
    assert torch.equal(env.obs_buf["policy"], images.amax((1, 2)) / 255.0)
    depth = make(cfg_with(model_name=network, data_type="depth"))
    images = depth.sensor_manager.get_term("eye").image("depth")
    assert torch.equal(depth.obs_buf["policy"], images.amax((1, 2)))


def test_a_task_that_observes_features_keeps_all_promises(network: str):
    assert_keeps_promises(cfg_with(4, model_name=network))


def test_a_resnet_is_torchvisions_and_gets_colours_normalised_for_its_weights(monkeypatch):
    asked = {}

    def resnet34(weights: str) -> nn.Module:
        asked["weights"] = weights
        return Brightest()

    models = types.SimpleNamespace(resnet34=resnet34)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    env = make(cfg_with(model_name="resnet34"))
    assert asked == {"weights": "ResNet34_Weights.IMAGENET1K_V1"}
    red = env.sensor_manager.get_term("eye").image("rgb")[..., 0] / 255.0
    assert torch.allclose(env.obs_buf["policy"][:, 0], (red.amax((1, 2)) - 0.485) / 0.229)


def test_what_is_no_network_for_these_images_is_refused(network: str, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    (tmp_path / "other.pt").write_text("no network")
    table = {
        "'resnet18' is torchvision's, which cannot be used": {},
        "model_name is 'resnet12', which does not exist. Give .* or one of resnet18": {
            "model_name": "resnet12"
        },
        "other.pt is not TorchScript": {"model_name": str(tmp_path / "other.pt")},
    }
    for words, params in table.items():
        with pytest.raises(ConfigurationError, match=words):
            make(cfg_with(**params))
    cfg = cfg_with(model_name=network)
    cfg.sensors.eye.width = 20
    with pytest.raises(ConfigurationError, match=r"not take images .* \(3, 24, 20\)"):
        make(cfg)
