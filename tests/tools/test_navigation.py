"""``envlab nav``: houses, and what policies reach there."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from PIL import Image

from envlab.errors import ConfigurationError, RunDirectoryError
from envlab.tools.navigation import main


def test_houses_are_described_and_drawn(tmp_path, capsys):
    main(["houses", "--split", "val", "--num", "2", "--pictures", str(tmp_path / "new")])
    printed = capsys.readouterr().out
    assert "2 houses of val" in printed
    assert "Television in a house" in printed
    for name in ("val_0.png", "val_1.png"):
        picture = Image.open(tmp_path / "new" / name)
        assert len(picture.getcolors(1 << 20)) > 200  # a map, and what is seen in colour


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["house"], "no command 'house'. Did you mean houses"),
        ([], "no command nothing"),
        (["houses", "--split", "valid"], "no split 'valid' of houses. Did you mean val"),
        (["houses", "--first", "-2"], "house index is -2"),
        (["houses", "--num", "0"], "--num is 0"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        main(arguments)


def test_pictures_that_cannot_be_written_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="Pictures cannot be written to"):
        main(["houses", "--num", "1", "--pictures", str(tmp_path / "file")])


def test_an_expert_is_measured_and_chance_too(tmp_path, capsys):
    words = ["--task", "Nav-PointNav-Depth-Play-v0", "--num_episodes", "6", "--num_envs", "6"]
    words += ["env.houses.num_houses=2", "env.houses.cache_dir=null", "env.images=[]"]
    path = tmp_path / "measures.json"
    main(["evaluate", *words, "--json", str(path)])
    assert "expert, houses of val" in capsys.readouterr().out
    assert json.loads(path.read_text())["all"]["success"] == [1.0, 1.0, 1.0]
    main(["evaluate", *words, "--policy", "random"])
    assert "random, houses of val" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "Isaac-Cartpole-v0"], "Isaac-Cartpole-v0 is not a navigation task"),
        (["--task", "Nav-PointNav-Depth-v0", "--num_episodes", "0"], "--num_episodes is 0"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        main(["evaluate", *arguments])
