"""House files: the houses they make, bad files, and playing in them."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.cli import main
from envlab.errors import ConfigurationError
from envlab_navigation.furniture import CLASSES, OTHER, TARGETS
from envlab_navigation.house import CELL
from envlab_navigation.house_cache import HouseCache
from envlab_navigation.house_file import parse_house
from envlab_navigation.house_files import HouseFiles
from tests.navigation.houses import make_set
from tests.navigation.test_nav_env import make
from tests.refusals import check_refusals

FLAT = {
    "rooms": [
        {"name": "living", "corners": [[0, 0], [5, 4]], "floor_colour": [0.6, 0.4, 0.2]},
        {"name": "hall", "corners": [[0, 4], [5, 4], [5, 5.5], [2, 5.5], [2, 7], [0, 7]]},
    ],
    "doors": [{"at": [3, 4]}],
    "objects": [
        {"kind": "Table", "at": [1, 1], "turn": 90},
        {"kind": "Mug", "at": [1, 1.3]},
        {"kind": OTHER, "at": [4.5, 0.5], "size": [0.6, 0.4, 1.8]},
    ],
}


def changed(**changes) -> dict:
    """Return the flat with other values; ``rooms__1__corners`` goes into lists and mappings."""
    values = copy.deepcopy(FLAT)
    for path, value in changes.items():
        *way, last = [int(key) if key.isdigit() else key for key in path.split("__")]
        node = values
        for key in way:
            node = node[key]
        node[last] = value
    return values


def write(folder, values: dict, name: str = "flat.yaml") -> str:
    path = folder / name
    path.write_text(json.dumps(values) if name.endswith("json") else yaml.safe_dump(values))
    return str(path)


def rows_of(house, name: str) -> np.ndarray:
    """Return the primitives of a class."""
    return house.primitives[house.primitives[:, 7] == CLASSES.index(name)]


@pytest.fixture
def flat(tmp_path):
    """The house of the flat, and the offset of its coordinates."""
    return HouseFiles([write(tmp_path, FLAT)]).make(0), 0.1


def test_a_file_makes_rooms_walls_and_a_door(flat):
    house, shift = flat
    tops = [0.0 + shift, 4.0 + shift]
    upper = house.walls[(house.walls[:, 3] < 0.06) & np.isclose(house.walls[:, 1], tops[1])]
    gap = sorted((x - half, x + half) for x, _, half, _ in upper.tolist())
    assert gap[0] == pytest.approx((shift - 0.049, shift + 3 - 0.475), abs=1e-5)
    assert gap[1] == pytest.approx((shift + 3 + 0.475, shift + 5.049), abs=1e-5)
    assert len(rows_of(house, "Door")) == 1
    assert house.room_of[int(6.5 / CELL), int(1 / CELL)] == 1
    assert not house.free[int(6.5 / CELL), int(4 / CELL)]  # outside the L of the hall
    assert np.allclose(house.paints[0, 0, :3], [0.6, 0.4, 0.2])
    assert (house.starts == house.free).all()


def test_objects_stand_on_those_below_them_and_have_their_size(flat):
    house, shift = flat
    (mug,), (other,) = rows_of(house, "Mug"), rows_of(house, OTHER)
    assert mug[:2] == pytest.approx([1 + shift, 1.3 + shift])
    assert mug[4] == pytest.approx(0.72)  # a table's height
    assert other[:6] == pytest.approx([4.5 + shift, 0.5 + shift, 0.3, 0.2, 0.0, 1.8])
    table = rows_of(house, "Table")[0]
    assert table[3] > table[2]  # turned by 90 degrees
    (higher,) = rows_of(_made(changed(objects__1__z=1.5)), "Mug")
    assert higher[4] == 1.5


def _made(values: dict):
    layout = parse_house(values, "flat.yaml")
    return layout.build(np.random.default_rng(0), layout.size())


def test_episodes_use_the_starts_and_objects_of_a_file(tmp_path):
    path = write(tmp_path, FLAT | {"starts": [[1, 6], [4, 1.5]]})
    env = make(12, goal="object", houses={"files": [path]}, camera={"width": 32, "height": 32})
    begun = {tuple(round(value, 2) for value in at) for at in env.start[:, :2].tolist()}
    assert begun <= {(1.15, 6.15), (4.15, 1.65)}
    assert set(env.goal.tolist()) == {TARGETS.index("Mug")}
    assert env.houses.name_of(0) == "flat"
    # Nearer to the mug there are free places, but no starts.
    with pytest.raises(ConfigurationError, match=r"has a goal of this task that is 0 to 0\.5 m"):
        make(1, goal="object", houses={"files": [path]}, start_range_m=[0.0, 0.5])


def test_a_folder_holds_houses_of_one_size_that_are_cached_by_content(tmp_path):
    small = {"rooms": [{"name": "only", "corners": [[-1, -1], [2, 2]]}]}
    write(tmp_path, FLAT, "b.json")
    write(tmp_path, small, "a.yaml")
    (tmp_path / "read.me").write_text("no house")
    cache = HouseCache(tmp_path / "cache", [str(tmp_path)])
    assert cache.files.names == ["a", "b"]
    houses = [cache.load("", number) for number in range(2)]
    assert houses[0]["free"].shape == houses[1]["free"].shape == (72, 52)
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 2
    again = HouseCache(tmp_path / "cache", [str(tmp_path)]).load("", 1)
    assert all(np.array_equal(again[name], values) for name, values in houses[1].items())
    assert make_set(1000, files=[str(tmp_path)]).num_houses == 2
    write(tmp_path, FLAT | {"doors": [{"at": [2, 4]}]}, "b.json")
    with pytest.raises(ConfigurationError, match=r"b\.json has changed since the run began"):
        cache.files.make(1)


TINY = {"rooms": [{"name": "box", "corners": [[0, 0], [0.4, 0.4]]}], "doors": [], "objects": []}
CROSSING = [[0, 0], [5, 0], [5, 4], [2, 4], [2, -2], [0, -2]]
BAD = (
    ({"rooms__1__corners": [[0, 3], [5, 6]]}, r"overlap by 5.0 m²"),
    (
        {"rooms__1__corners": [[5.04, 0], [8, 4]]},
        r"a wall of the room 'living' and a wall of the room 'hall' overlap for 4.00 m, at x = 5",
    ),
    (
        {"walls": [{"start": [0, 4], "end": [2, 4]}]},
        r"a wall of the room 'living' and walls.0 overlap for 2.00 m",
    ),
    ({"walls": [{"start": [1, 1], "end": [2, 2]}]}, "along neither x nor y"),
    ({"walls": [{"start": [1, 1], "end": [1, 1]}]}, "walls.0 ends where it starts"),
    ({"rooms__0__corners": [[0, 0], [5, 0], [4, 4]]}, "along neither x nor y"),
    ({"rooms__0__corners": [[0, 0]]}, "needs two opposite corners"),
    ({"rooms__0__corners": CROSSING}, "the room 'living': two of its sides cross"),
    ({"rooms__0__corners": [[0, -90], [5, 4]]}, "has at most 29.8 m along x and y"),
    ({"rooms": []}, "rooms is empty"),
    (TINY, "has no place where an agent fits"),
    ({"doors": []}, "the room 'hall' is walled in"),
    ({"doors__0__at": [3, 3]}, r"is in no wall: the nearest is 1.00 m away"),
    ({"doors__0__at": [5, 2]}, "leads out of the house"),
    ({"doors__0__at": [0.2, 4]}, "does not fit into its wall"),
    ({"doors__0__at": [float("inf"), 0]}, "doors.0.at.*inf"),
    ({"doors__0__width": 0.4}, "is 0.4 m wide, but an agent needs 0.6 m"),
    ({"doors": [{"at": [3, 4]}, {"at": [3.5, 4]}]}, "overlaps another door"),
    ({"objects__1__kind": "Mugg"}, "'Mugg' is not a class. .* mean Mug?"),
    ({"objects__1__at": [4, 6]}, "a Mug at .*, is in no room"),
    ({"objects__1__z": 900}, r"objects.1.z is 900.*less than 2.6"),
    ({"objects__2__size": None}, "needs its size"),
    ({"objects__0__turn": 45}, "turn must be one of 0, 90, 180, 270"),
    ({"objects__0__colr": [0, 0, 0]}, "Did you mean .*colour"),
    ({"starts": [[1, 1]]}, r"starts.0 of .*, \[1.0, 1.0\], is walled in"),  # in a table
    ({"starts": [[4, 6]]}, r"starts.0, \[4.0, 6.0\], is in no room"),
    ({"starts": [[1, 6], [1, 90]]}, r"starts.1, .* is in no room"),
    ({"starts": [[-2, -2]]}, r"starts.0, .* is in no room"),
)
"""Changes of the flat, and the answers."""


def test_a_file_that_makes_no_house_is_refused_in_a_sentence(tmp_path):
    def read(changes) -> None:
        HouseFiles([write(tmp_path, changed(**changes))])

    rows = [(changes, f"(?s)(?=.*flat.yaml).*{words}") for changes, words in BAD]
    check_refusals(read, rows)


def test_a_bad_house_file_is_refused(tmp_path):
    def read(name: str, content: str | None) -> None:
        if content is not None:
            (tmp_path / name).write_text(content)
        HouseFiles([str(tmp_path / name)])

    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "empty").mkdir()
    check_refusals(
        read,
        [
            ("house.json", "{", "house.json is not valid JSON"),
            ("house.json", "[1]", "holds list, but a house is a mapping"),
            ("house.yaml", "rooms: [", "is not valid YAML"),
            ("house.txt", "", r"not a house file: its name must end in one of .json, .yaml, .yml"),
            ("house.json", "[" * 100_000, "nests too deeply"),
            ("empty", None, "holds no house file"),
            ("missing.yaml", None, "cannot be read|no file"),
            ("pipe.json", None, "is not a regular file"),
        ],
    )
    path = write(tmp_path, FLAT)
    apple = {"goal": "object", "targets": ["Apple"], "houses": {"files": [path]}}
    second = {"houses": {"files": [path], "first_house": 1}}
    check_refusals(
        lambda fields: make(**fields),
        [
            (apple, r"names 'Apple', but no house file .* have Mug"),
            (second, "first_house is 1, but there are 1 house files"),
        ],
    )
    values = changed(objects=[None] * 60_000)  # which are not looked at
    check_refusals(parse_house, [(values, "flat.yaml", "objects has 60,000 entries, but a house")])


def test_the_command_checks_and_draws_a_file(tmp_path, capsys):
    path = write(tmp_path, changed(objects__1__z=2.2))
    pictures = tmp_path / "pictures"
    assert main(["nav", "houses", "--file", path, "--pictures", str(pictures)]) == 0
    printed = capsys.readouterr().out
    assert f"{path}: nothing is left out." in printed
    assert "Mug in a house" in printed
    assert [one.name for one in pictures.iterdir()] == ["flat.png"]
    assert main(["nav", "houses", "--file", write(tmp_path, changed(doors=[]), "bad.yaml")]) == 2
    assert "the room 'hall' is walled in" in capsys.readouterr().err


def test_the_documented_file_is_the_one_in_the_docs():
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "houses/flat.yaml").read_text()
    assert f"```yaml\n{text}```" in (docs / "navigation.md").read_text()
    files = HouseFiles([str(docs / "houses")])
    assert files.classes == {"Bowl", "GarbageCan", "HousePlant", "Mug", "Television"}
