"""The dashboard's answers: who is admitted, how errors read, and the files it never reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="needs starlette: pip install -e '.[web]'")
from starlette.testclient import TestClient

from envlab_web.address import REFUSAL, Address
from envlab_web.dashboard import catalogue
from envlab_web.dashboard.server import make_app
from tests.web.dashboard.logs import write_metrics, write_run

SECRET = "tell nobody"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(catalogue, "FRESH_S", 0.0)
    root = tmp_path / "logs"
    for seed, age_s in ((0, 300), (1, 200)):
        write_run(root, "Isaac-Ant-v0", name=f"ant_{seed}", seed=seed, age_s=age_s, iterations=20)
    write_run(
        root, "Isaac-Cartpole-v0", library="skrl", name="pole", status="running", iterations=30
    )
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.mp4").write_text(SECRET)
    return root


@pytest.fixture
def visitor(logs: Path, request):
    """A visitor with the token, who may control runs if a test's parameter allows it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(listener=listener)
        app = make_app(logs, address, allow_control=getattr(request, "param", False))
        client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        assert client.get(f"/?token={address.token}").status_code == 200
        client.token = address.token  # type: ignore[attr-defined]
        yield client


def change(logs: Path, **values) -> None:
    """Change values in the manifest of the run that tests look at."""
    file = logs / ANT / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def replace(path: Path, target: Path | str) -> None:
    """Put a link in the place of a file or folder."""
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


ANT = "rsl_rl/ant/ant_0"
BOTH = f"run={ANT}&run=rsl_rl/ant/ant_1"
POLE = "skrl/cartpole/pole"
PAGES = ["/", f"/runs?run={ANT}", "/api/list", f"/api/details?run={ANT}", f"/api/curves?run={ANT}"]


def test_without_the_token_nothing_is_shown(visitor):
    for token in ["", "wrong"]:
        for path in [*PAGES, "/static/list.js", "/video", "/nowhere"]:
            visitor.cookies.clear()
            if token:
                path += ("&" if "?" in path else "?") + f"token={token}"
            answer = visitor.get(path)
            assert (answer.status_code, answer.text) == (403, REFUSAL)


def test_the_token_leaves_the_address_and_stays_in_a_cookie_of_this_port_only(visitor):
    visitor.cookies.clear()
    path = f"/runs?run={quote(ANT, safe='')}&token={visitor.token}"
    answer = visitor.get(path, follow_redirects=False)
    assert answer.status_code == 303
    assert visitor.token not in answer.headers["location"]
    assert re.match(r"envlab_\d+=", answer.headers["set-cookie"])
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert visitor.get(answer.headers["location"]).status_code == 200
    elsewhere = visitor.get(f"//example.org/?token={visitor.token}", follow_redirects=False)
    assert not elsewhere.headers.get("location", "/").startswith("//")


def test_each_page_answers_and_loads_nothing_from_elsewhere(visitor):
    for path in PAGES:
        answer = visitor.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"""(src|href|action)=["'](https?:)?//""", answer.text)
        assert visitor.token not in answer.text


def test_the_list_shows_each_run_the_newest_first(visitor):
    answer = visitor.get("/api/list")
    rows = answer.json()["rows"]
    assert [row["name"] for row in rows] == [POLE, "rsl_rl/ant/ant_1", ANT]
    pole = rows[0]
    expected = {"task": "Isaac-Cartpole-v0", "library": "skrl", "status": "running"}
    assert {name: pole[name] for name in expected} == expected
    assert (pole["num_processes"], pole["iteration"], pole["total_iterations"]) == (2, 30, 300)
    assert pole["eta_s"] == pytest.approx(270 * 2.1)
    same = visitor.get("/api/list", headers={"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_only_changed_runs_are_read_again(logs, visitor, monkeypatch):
    visitor.get("/api/list")
    read: list[Path] = []
    real = catalogue.read_manifest
    monkeypatch.setattr(catalogue, "read_manifest", lambda run: read.append(run) or real(run))
    write_metrics(logs / POLE, 31, 32)
    rows = visitor.get("/api/list").json()["rows"]
    assert rows[0]["iteration"] == 32
    assert read == [logs / POLE]


def test_curves_are_those_of_compare_with_an_interval_over_seeds(visitor):
    (line,) = visitor.get(f"/api/curves?{BOTH}").json()["lines"]
    assert line["label"] == "rsl_rl, 2 processes (2 runs)"
    assert len(line["x"]) == len(line["low"]) == 200
    intervals = zip(line["low"], line["y"], line["high"], strict=True)
    assert all(low <= y <= high for low, y, high in intervals)
    apart = visitor.get(f"/api/curves?{BOTH}&group=0&x=wall_s").json()
    assert [line["label"] for line in apart["lines"]] == [ANT, "rsl_rl/ant/ant_1"]
    assert apart["lines"][0]["x"][-1] == pytest.approx(42.0)
    assert "losses.value" in apart["metrics"]
    assert "seed" in visitor.get(f"/runs?{BOTH}").text


def test_differences_are_shown_by_parameter_those_of_all_runs_before_those_of_some(logs, visitor):
    (logs / ANT / "params" / "agent.yaml").write_text("algorithm:\n  learning_rate: 0.0625\n")
    page = visitor.get(f"/runs?{BOTH}").text
    assert "agent.algorithm.learning_rate" in page
    assert "0.0625" in page
    assert "env.decimation" not in page
    assert "<details>" not in page
    for run, rate in ((ANT, 0.5), ("rsl_rl/ant/ant_1", 0.25)):
        own = "own: 1\n" if run == ANT else ""
        (logs / run / "params" / "agent.yaml").write_text(f"{own}learning_rate: {rate}\n")
    shown, _, folded = visitor.get(f"/runs?{BOTH}").text.partition("<details>")
    assert "agent.learning_rate" in shown
    assert "agent.own" in folded
    assert "agent.own" not in shown


SENTENCES = {
    "/runs": (400, "0 runs are chosen"),
    "/runs?run=rsl_rl/ant/gone": (404, "There is no run &#39;rsl_rl/ant/gone&#39;"),
    f"/api/curves?run={ANT}&run={POLE}": (404, "The runs are of 2 tasks"),
    f"/api/curves?run={ANT}&x=banana": (400, "x is 'banana'"),
    f"/api/curves?run={ANT}&metric=no.such": (200, '"lines":[]'),
    f"/video?run={ANT}&name=none.mp4": (404, "has no video"),
    "/nowhere": (404, "Not Found"),
}


def test_a_request_that_cannot_be_answered_is_one_sentence(visitor):
    for path, (status, sentence) in SENTENCES.items():
        answer = visitor.get(path)
        assert (answer.status_code, sentence in answer.text) == (status, True)
        assert "Traceback" not in answer.text


def test_a_run_that_vanishes_while_it_is_shown_is_reported(logs, visitor, monkeypatch):
    monkeypatch.setattr(catalogue, "FRESH_S", 60.0)
    assert visitor.get(f"/api/details?run={ANT}").status_code == 200
    shutil.rmtree(logs / ANT)
    answer = visitor.get(f"/api/details?run={ANT}")
    sentence = f"The run {ANT!r} was removed while it was shown."
    assert (answer.status_code, answer.text) == (404, sentence)


def test_a_run_says_above_its_return_what_it_changed_of_its_task(logs, visitor):
    page = f"/api/details?run={ANT}"
    change(logs, version=2)
    assert "A newer envlab wrote this run" in visitor.get(page).text
    assert "Changed in the task" not in visitor.get(page).text
    words = ["env.sim.num_threads=1", "agent.seed=3", "env.rewards.alive.weight=2", "no word", 5]
    words.append("env.rewards.alive.weight=<b>4</b>")  # a later stage's
    change(logs, overrides=words)
    text = visitor.get(page).text
    told = "task as it is: env.rewards.alive.weight=&lt;b&gt;4&lt;/b&gt;</p>"
    assert 0 < text.index(told) < text.index("<dt>Return</dt>")


def test_what_was_measured_of_a_checkpoint_stands_below_it(logs, visitor):
    folder = logs / ANT / "checkpoints"
    folder.mkdir(exist_ok=True)
    (folder / "model_20.pt").touch()
    values = {"iteration": 20, "frames": 9, "wall_s": 1.0, "num_episodes": 1024, "return": 71.5}
    values["intervals"] = {"return": [70.25, 72.75], "success_rate": "<b>"}
    values |= {"success_rate": 0.5, "falls_per_hour": "<b>"}
    (folder / "evaluation_20.json").write_text(json.dumps(values))
    text = visitor.get(f"/api/details?run={ANT}").text
    assert "Played 1,024 episodes: return 71.5 (70.25 to 72.75), success rate 0.5</p>" in text


DAMAGE = [
    ("run.json", "{", "cannot be read"),
    ("metrics.jsonl", "{}\n{}\n", "Line 1 of"),
    ("heartbeats.json", '{"ranks": [{"rank": "x"}]}', "has written no heartbeats"),
    ("heartbeats.json", '{"ranks": [{"rank": 1e999}]}', "has written no heartbeats"),
    ("params/agent.yaml", "{", "learning_rate"),
    ("checkpoints/evaluation_1.json", "{", "learning_rate"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), DAMAGE)
def test_damage_in_one_file_leaves_the_rest_shown(logs, visitor, name: str, text, sentence: str):
    (logs / ANT / name).parent.mkdir(exist_ok=True)
    (logs / ANT / name).write_text(text)
    paths = ("/api/list", "/api/details", "/api/curves", "/runs")
    answers = [visitor.get(f"{path}?{BOTH}") for path in paths]
    assert all(answer.status_code in (200, 404) for answer in answers)
    assert any(sentence in answer.text for answer in answers)
    assert len(answers[0].json()["rows"]) == 3


def test_a_run_that_may_not_be_read_leaves_the_others_listed(logs, visitor, monkeypatch):
    def scandir(folder):
        if Path(folder) == logs / ANT / "params":
            raise PermissionError(f"{folder} may not be read")
        return scan(folder)

    scan = os.scandir
    monkeypatch.setattr(catalogue.os, "scandir", scandir)
    rows = {row["name"]: row for row in visitor.get("/api/list").json()["rows"]}
    assert len(rows) == 3
    assert "may not be read" in rows[ANT]["trouble"]


def test_an_unforeseen_error_is_a_sentence_too(visitor, monkeypatch):
    from envlab_web.dashboard import details

    monkeypatch.setattr(details, "logs", lambda run: 1 / 0)
    answer = visitor.get(f"/api/details?run={ANT}")
    assert answer.status_code == 500
    assert answer.text == "The dashboard failed here; its terminal says why. Other pages work."


OUTSIDE = [
    *("../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "../../etc/passwd", "/etc/passwd"),
    *("..\\secret.txt", "%00", "$(id)", "a;id", "."),
]


def test_nothing_that_a_visitor_types_leads_out_of_the_folder(logs, visitor):
    for typed in OUTSIDE:
        for path in (
            f"/static/{typed}",
            f"/runs?run={typed}",
            f"/runs?run={ANT}/{typed}",
            f"/api/details?run={typed}",
            f"/api/curves?run={ANT}&metric={typed}",
            f"/video?run={ANT}&name={typed}",
            f"/video?run={ANT}&name=videos/{typed}",
            f"/{typed}",
        ):
            answer = visitor.get(path)
            assert SECRET not in answer.text
            assert "root:" not in answer.text
            assert answer.status_code in (200, 400, 404)


LINKS = ["log.txt", "videos/one.mp4", "run.json", "metrics.jsonl", "params/agent.yaml", "params"]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_out_of_the_folder_is_not_followed(logs, visitor, name: str):
    target = logs.parent / "elsewhere"
    target.mkdir()
    text = json.dumps({"iteration": 1, "frames": 1, "wall_s": 1.0, "mean_return": 77.125})
    if name == "run.json":
        text = json.dumps({"task": SECRET, "created_at": "2026-01-01"})
    if name.startswith("params"):
        text = f"{SECRET.replace(' ', '_')}: 77.125\n"
    for file in ("file", "agent.yaml"):
        (target / file).write_text(SECRET if name in ("log.txt", "videos/one.mp4") else text)
    replace(logs / ANT / name, target if name == "params" else target / "file")
    for page in (*PAGES, f"/video?run={ANT}&name={name}", f"/runs?{BOTH}", f"/api/curves?{BOTH}"):
        answer = visitor.get(page)
        assert SECRET not in answer.text
        assert "77.125" not in answer.text


def test_values_from_a_run_are_only_text_on_the_page(logs, visitor):
    evil = "<script>alert(1)</script>"
    change(logs, task=evil, command=evil, error=evil)
    (logs / ANT / "log.txt").write_text(f"{evil}\x1b[31m")
    for path in PAGES[1:4:2]:
        assert "<script>alert" not in visitor.get(path).text
    assert "\x1b" not in visitor.get(PAGES[3]).text


def test_a_video_is_served_in_parts(logs, visitor):
    folder = logs / ANT / "videos" / "train"
    folder.mkdir(parents=True)
    (folder / "step_0.mp4").write_bytes(bytes(range(100)))
    name = "videos/train/step_0.mp4"
    assert name in visitor.get(f"/api/details?run={ANT}").text.replace("%2F", "/")
    answer = visitor.get(f"/video?run={ANT}&name={name}", headers={"Range": "bytes=10-19"})
    assert (answer.status_code, answer.content) == (206, bytes(range(10, 20)))


def test_nothing_is_controlled_unless_that_is_allowed(visitor):
    for action in ["stop", "resume"]:
        headers = {"X-Envlab-Token": visitor.token}
        answer = visitor.post(f"/control/{action}?run={ANT}", headers=headers)
        assert (answer.status_code, "--allow-control" in answer.text) == (403, True)


@pytest.mark.parametrize("visitor", [True], indirect=True, ids=["in control"])
def test_a_form_of_another_site_controls_nothing(visitor):
    assert "data-act" in visitor.get(f"/api/details?run={POLE}").text
    path = f"/control/stop?run={POLE}"
    assert visitor.post(path).status_code == 403
    assert visitor.post(f"{path}&token={visitor.token}").status_code == 403
    assert visitor.post(path, headers={"X-Envlab-Token": "wrong"}).status_code == 403
    assert visitor.get(path).status_code == 405
    answer = visitor.post(path, headers={"X-Envlab-Token": visitor.token})
    assert (answer.status_code, "No process of yours" in answer.text) == (404, True)


def test_a_folder_of_cluster_shows_the_output_of_its_processes(logs, visitor):
    write_run(logs, "Isaac-Ant-v0", name="far", iterations=2, launch={"name": "abc"})
    ranks = logs / "runs" / "abc" / "ranks"
    ranks.mkdir(parents=True)
    (ranks / "0.txt").write_text("0 %\r50 %\r100 %\nall is well\n")
    page = visitor.get("/api/details?run=rsl_rl/ant/far").text
    assert "all is well" in page
    assert "50 %" not in page
    assert os.path.relpath(ranks / "0.txt", logs / "rsl_rl/ant/far") in page


def test_no_value_of_a_manifest_breaks_a_page(logs, visitor):
    for values in [
        {"git": {"commit": 12345678}},
        {"git": {"commit": "\ud800"}, "versions": {"torch": "\ud800"}, "error": "\ud800"},
        {"launch": {"name": "n" * 5000}},
    ]:
        change(logs, **values)
        for page in PAGES:
            assert visitor.get(page).status_code in (200, 404)
        assert len(visitor.get("/api/list").json()["rows"]) == 3


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, ".") for name in ("run.json", "params", "params/agent.yaml", "videos")),
        ("params/agent.yaml", "nowhere"),
    ],
)
def test_no_link_in_a_run_breaks_a_page(logs, visitor, name: str, target: str):
    path = logs / ANT / name
    replace(path, path if target == "." else target)
    for page in (*PAGES, f"/runs?{BOTH}", f"/video?run={ANT}&name={name}"):
        assert visitor.get(page).status_code in (200, 404)
    assert visitor.get("/api/list").status_code == 200
