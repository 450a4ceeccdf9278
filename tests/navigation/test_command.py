"""``envlab nav``: houses, and measures of policies in them."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from PIL import Image

from envlab.errors import RunDirectoryError
from envlab_navigation.command import main
from envlab_navigation.house import CELL, POINT_RADIUS
from envlab_navigation.house_cache import HouseCache
from envlab_navigation.pictures import GOAL_COLOUR, WAY_COLOUR, draw_episode, draw_map, shortest_way


def test_houses_are_described_and_drawn(tmp_path, capsys):
    main(["houses", "--split", "val", "--num", "2", "--pictures", str(tmp_path / "new")])
    printed = capsys.readouterr().out
    assert "2 houses of val" in printed
    assert "Television in a house" in printed
    for name in ("val_0.png", "val_1.png"):
        picture = Image.open(tmp_path / "new" / name)
        assert len(picture.getcolors(1 << 20)) > 200  # a map, and the view in colour


def test_pictures_that_cannot_be_written_are_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="Pictures cannot be written to"):
        main(["houses", "--num", "1", "--pictures", str(tmp_path / "file")])


def test_an_expert_is_measured_and_chance_too(tmp_path, capsys):
    words = ["--task", "Nav-PointNav-Depth-Play-v0", "--num_episodes", "6", "--num_envs", "6"]
    words += ["env.houses.num_houses=2", "env.houses.cache_dir=null", "env.images=[]"]
    path = tmp_path / "measures.json"
    main(["evaluate", *words, "--json", str(path)])
    assert "expert, houses of val" in capsys.readouterr().out
    measured = json.loads(path.read_text())
    assert measured["place"] == "houses of val"
    assert measured["measures"]["all"]["success"] == [1.0, 1.0, 1.0]
    folder = tmp_path / "ways"
    main(["evaluate", *words, "--policy", "random", "--pictures", str(folder)])
    assert "random, houses of val" in capsys.readouterr().out
    pictures = sorted(folder.iterdir())
    assert len(pictures) == 6
    assert all(re.fullmatch(r"000\d_val_[01]_point_failed_end.png", one.name) for one in pictures)


def test_an_episode_is_drawn_from_its_start_to_where_it_ended():
    house = HouseCache(None).load("val", 0)
    goal, (row, column) = 12, np.argwhere(house["free"])[0]
    start = ((column + 0.5) * CELL, (row + 0.5) * CELL)
    way = shortest_way(house["fields"][goal], start)
    assert way[0] == start
    assert math.dist(way[-1], house["points"][0]) <= POINT_RADIUS + CELL
    steps = [math.dist(one, other) for one, other in itertools.pairwise(way)]
    assert max(steps) <= math.sqrt(2) * CELL + 1e-6
    length = house["fields"][goal, row, column] / 1000.0
    assert sum(steps) == pytest.approx(length, rel=0.1)  # diagonals are longer than the way is
    poses = [np.array([*place, 0.88, 0.0, 0.0]) for place in way]
    drawn = np.asarray(draw_episode(house, goal, poses, "a title"))
    for colour in (WAY_COLOUR, GOAL_COLOUR):
        assert (drawn == colour).all(axis=2).any()
    assert drawn.shape[0] < draw_map(house).height + 24  # without the surroundings of the house
