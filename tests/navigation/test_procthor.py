"""Houses in ProcTHOR's format, made for these tests."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab_navigation.furniture import CLASSES, OTHER
from envlab_navigation.house_cache import HouseCache
from envlab_navigation.house_files import HouseFiles, read_layout
from envlab_navigation.procthor import type_of
from tests.refusals import check_refusals


def wall(room: int | str, x0: float, z0: float, x1: float, z1: float, **others) -> dict:
    """Return a wall as ProcTHOR writes it: its lower corners first."""
    low = f"{min(x0, x1):.2f}|{min(z0, z1):.2f}|{max(x0, x1):.2f}|{max(z0, z1):.2f}"
    corners = [(x0, 0, z0), (x1, 0, z1), (x0, 3.1, z0), (x1, 3.1, z1)]
    polygon = [dict(zip("xyz", corner, strict=True)) for corner in corners]
    return {"id": f"wall|{room}|{low}", "roomId": f"room|{room}", "polygon": polygon} | others


def room(number: int, *corners: tuple[float, float]) -> dict:
    polygon = [{"x": x, "y": 0, "z": z} for x, z in corners]
    floor = {"name": "Wood", "color": {"r": 0.5, "g": 0.4, "b": 0.3}}
    return {"id": f"room|{number}", "floorPolygon": polygon, "floorMaterial": floor}


def thing(kind: str, asset: str, x: float, y: float, z: float, turn: float = 0, **others) -> dict:
    where = {"position": {"x": x, "y": y, "z": z}, "rotation": {"x": 0, "y": turn, "z": 0}}
    return {"id": f"{kind}|2|0", "assetId": asset, **where, "kinematic": True} | others


def make_house() -> dict:
    """Return a house: two rooms with a door, and a third that is open to the second."""
    hole = [{"x": 0.5, "y": 0, "z": 0}, {"x": 1.5, "y": 2.0, "z": 0}]
    mug = thing("Mug", "Mug_1", 1.0, 0.8, 1.2)
    return {
        "rooms": [
            room(2, (0, 0), (0, 4), (4, 4), (4, 0)),
            room(3, (4, 0), (4, 4), (8, 4), (8, 0)),
            room(4, (8, 0), (8, 4), (10, 4), (10, 0)),
        ],
        "walls": [
            wall(2, 4, 4, 4, 0),  # from the far end
            wall(3, 4, 0, 4, 4),
            wall(3, 8, 4, 8, 0, empty=True),
            wall(4, 8, 0, 8, 4, empty=True),
            wall(2, 0, 0, 0, 4),
            wall("exterior", 0, 4, 0, 0),
        ],
        "doors": [
            {
                **{"id": "door|2|3", "assetId": "Doorway_1", "holePolygon": hole},
                **{"wall0": "wall|2|4.00|0.00|4.00|4.00", "wall1": "wall|3|4.00|0.00|4.00|4.00"},
                **{"room0": "room|2", "room1": "room|3", "openness": 1, "openable": True},
            },
            {
                **{"id": "door|1|2", "assetId": "Doorway_2", "holePolygon": hole},
                **{"wall0": "wall|2|0.00|0.00|0.00|4.00"},
                **{"wall1": "wall|exterior|0.00|0.00|0.00|4.00", "openness": 0},
            },
        ],
        "windows": [{"id": "window|2|1"}],
        "objects": [
            thing("DiningTable", "Dining_Table_203_1", 1.0, 0.36, 1.0, 90, children=[mug]),
            thing("Fridge", "Fridge_1", 7.4, 0.9, 3.4, 180),
            thing("Chair", "RoboTHOR_office_chair_allak", 6.0, 0.45, 1.0, 45),
            thing("Chair", "Chair_1", 6.0, 0.45, 3.0, 0),
            thing("2", "bin_3", 9.0, 0.3, 3.0),
            thing("Gadget", "Gizmo_7", 2.0, 0.3, 3.0),
        ],
        "proceduralParameters": {"lights": [{"id": "light_2"}, {"id": "light_3"}]},
        "metadata": {"schema": "1.0.0"},
    }


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "procthor.json"
    file.write_text(json.dumps(make_house()))
    return file


def rows_of(house, name: str) -> np.ndarray:
    return house.primitives[house.primitives[:, 7] == CLASSES.index(name)]


def test_rooms_doors_and_openings_become_walls_with_gaps(path):
    house = HouseFiles([str(path)]).make(0)
    upright = house.walls[np.isclose(house.walls[:, 0], 4.1) & (house.walls[:, 2] < 0.06)]
    spans = sorted((y - half - 0.1, y + half - 0.1) for _, y, _, half in upright.tolist())
    # 0.5 to 1.5 m from the far end of the wall
    assert spans == [pytest.approx((-0.049, 2.5), abs=1e-4), pytest.approx((3.5, 4.049), abs=1e-4)]
    assert not (np.isclose(house.walls[:, 0], 8.1) & (house.walls[:, 2] < 0.06)).any()
    for x, y in ((1, 3.5), (5, 2), (9.5, 1)):  # one region
        assert house.free[round(y * 10), round(x * 10)]
    assert np.allclose(house.paints[:3, 0, :3], [0.5, 0.4, 0.3])


def test_objects_stand_where_and_as_large_as_they_are_there(path):
    house = HouseFiles([str(path)]).make(0)
    table = rows_of(house, "Table")[0]
    assert table[:2] == pytest.approx([1.1, 1.1])
    assert table[5] == pytest.approx(0.72)  # twice the height of its middle
    assert table[3] > table[2]  # turned
    (mug,) = rows_of(house, "Mug")[:1]
    assert mug[4] == pytest.approx(0.72)
    (fridge,) = rows_of(house, OTHER)
    assert fridge[2:6] == pytest.approx([0.5, 0.36, 0.0, 1.8])
    assert len(rows_of(house, "GarbageCan")) == 1
    oblique, straight = np.split(rows_of(house, "Chair"), 2)
    back = straight[1]  # ProcTHOR's fronts look along z, so its back is at smaller y
    assert back[1] < straight[0, 1]
    ratio = oblique[0, 2] / straight[0, 2]
    width, depth = 0.48, 0.54
    assert ratio == pytest.approx((width + depth) * math.sqrt(0.5) / width, rel=1e-3)


def test_unsupported_parts_of_a_house_are_reported(path, capsys, caplog):
    notes = read_layout(path).notes
    assert notes == [
        "1 door to the outside, here walls",
        "the leaves of 1 door, which stand open",
        "left out, of an unknown type: 1 object (Gizmo_7)",
        "drawn as a box: 1 object (Fridge)",
        "made larger, for an oblique angle: 1 object (Chair)",
        "1 window, here walls",
        "2 lights, in place of which one shines everywhere",
        "a ceiling at 3.1 m, here at 2.6 m",
    ]
    HouseCache(None, [str(path)]).load("", 0)
    assert "1 of 1 house files hold what houses here cannot have" in caplog.text


def test_the_older_schema_gives_doors_a_bounding_box(tmp_path, path):
    old = make_house()
    low, high = old["doors"][0].pop("holePolygon")
    old["doors"][0]["boundingBox"] = {"min": low, "max": high}
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert read_layout(tmp_path / "old.json").plan == read_layout(path).plan


def test_a_type_is_read_from_the_id_or_the_asset():
    assert type_of({"id": "Vase|2|1", "assetId": "x"}) == "Vase"
    for asset, expected in (
        ("Alarm_Clock_10", "AlarmClock"),
        ("RoboTHOR_garbage_bin_ai2_1_v", "GarbageCan"),
        ("RoboTHOR_hemnes_day_bed", "Bed"),
        ("Dog_Statue_1", "Statue"),
        ("Gizmo_7", ""),
    ):
        assert type_of({"id": "2|1", "assetId": asset}) == expected


def test_a_damaged_file_is_refused_in_a_sentence(tmp_path):
    def read(way, value) -> None:
        node = values = make_house()
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = value
        (tmp_path / "bad.json").write_text(json.dumps(values))
        read_layout(tmp_path / "bad.json")

    check_refusals(
        read,
        [
            (("doors", 0, "wall0"), "wall|9", r"bad.json.*there is no 'wall\|9'"),
            (("rooms", 0, "floorPolygon", 1, "x"), 1.0, "runs along neither x nor y"),
            (("objects", 0, "position", "x"), float("nan"), "nan is not a length in m"),
            (("objects", 0, "position"), None, "NoneType"),
            (("walls", 0, "polygon"), 3, "not iterable"),
        ],
    )
