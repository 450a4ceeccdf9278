"""Policies go to a Hugging Face repository and come back, by the real client and a small server."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import envlab
from envlab import cli
from envlab.distributed.checkpoint import load_checkpoint, save_checkpoint
from envlab.errors import CheckpointError
from envlab.run import pretrained
from envlab.run.packing import EXPORTED_FROM
from tests.trained import SMALL, train_in

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install -e '.[trackers]'")
SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The requests that pushing and fetching small files make; all repositories are one."""

    files: dict[str, bytes]
    asked: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/api/repos/create"):
            self.asked.append(f"create {json.loads(body).get('visibility', 'public')}")
            self._answer({"url": f"http://{self.headers['Host']}/me/walker"})
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": path, **modes} for path in paths]})
        elif "/validate-yaml" in self.path:
            self._answer({"errors": [], "warnings": []})
        else:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.files[line["value"]["path"]] = content
            url = f"http://{self.headers['Host']}/me/walker/commit/{SHA}"
            self._answer({"commitUrl": url, "commitOid": SHA, "success": True})

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/me/walker"):
            siblings = [
                {"rfilename": name, "size": len(data), "blobId": "0"}
                for name, data in self.files.items()
            ]
            self._answer({"id": "me/walker", "sha": SHA, "siblings": siblings})
        else:
            self._file(has_body=True)

    def do_HEAD(self) -> None:
        self._file(has_body=False)

    def _file(self, *, has_body: bool) -> None:
        data = self.files.get(unquote(self.path).partition(f"/resolve/{SHA}/")[2])
        if data is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.sha1(data).hexdigest()}"'
        self._send(data, has_body=has_body, **{"ETag": etag, "X-Repo-Commit": SHA})

    def _answer(self, values: dict[str, Any]) -> None:
        self._send(json.dumps(values).encode(), **{"Content-Type": "application/json"})

    def _send(self, data: bytes, *, has_body: bool = True, **headers: str) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    hub = type("OneHub", (Hub,), {"files": {}, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        yield hub
        server.shutdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> envlab.TrainingRun:
    folder = tmp_path_factory.mktemp("pushed")
    assert train_in(folder, *SMALL, "--max_iterations=2", "--run_name=secret") == 0
    return envlab.runs(folder / "logs")[0]


def push(directory: Path, *words: str, to: str = "hf:me/walker") -> int:
    return cli.main(["push", str(directory), to, *words])


@pytest.fixture
def copy(run: envlab.TrainingRun, tmp_path: Path) -> Path:
    """A copy of the run, to be changed."""
    return shutil.copytree(run.directory, tmp_path / "copy")


def test_a_pushed_policy_plays_elsewhere_as_here(
    run: envlab.TrainingRun, hub: type[Hub], tmp_path: Path, monkeypatch, capsys
) -> None:
    assert push(run.directory, "--private") == 0
    assert capsys.readouterr().out.strip().endswith(f"/me/walker/commit/{SHA}")
    assert set(hub.files) == {
        *("README.md", "run.json", "params/agent.yaml", "params/env.yaml", "checkpoints/policy.pt")
    }
    assert hub.asked == ["create private"]
    monkeypatch.chdir(tmp_path)
    words = ["play", "rsl_rl", "--task=Isaac-Cartpole-v0", "--no_export", "--num_envs=4"]
    assert cli.main([*words, "--checkpoint=hf:me/walker", "--json=there.json"]) == 0
    assert "Fetching 4 files" in capsys.readouterr().out
    assert cli.main([*words, f"--checkpoint={run.checkpoint('best')}", "--json=here.json"]) == 0
    there, here = (json.loads(Path(f"{name}.json").read_text()) for name in ("there", "here"))
    assert there["return"] == here["return"]
    policy = envlab.load_policy("hf:me/walker")
    policy.env.close()
    assert policy.checkpoint == Path("logs/hf/me--walker/checkpoints/policy.pt").absolute()


def test_the_card_holds_the_runs_facts_and_nothing_about_the_machine(
    run: envlab.TrainingRun, hub: type[Hub]
) -> None:
    assert push(run.directory, "--checkpoint=latest") == 0
    card = hub.files["README.md"].decode()
    assert "envlab play rsl_rl --task=Isaac-Cartpole-v0 --checkpoint=hf:me/walker" in card
    assert "| frames | 1,024, in 2 iterations |" in card
    assert "| seed | 42 (one seed) |" in card
    assert "changed in it" not in card
    public = json.loads(hub.files["run.json"])
    assert not {"host", "pid", "flags"} & set(public)
    texts = [data.decode() for name, data in hub.files.items() if not name.endswith(".pt")]
    assert not [text for text in texts if str(Path.home()) in text or str(run.directory) in text]
    stored = len(hub.files["checkpoints/policy.pt"])
    assert stored < run.checkpoint().stat().st_size / 2  # no optimizer, no environments


def test_the_card_says_before_the_return_what_the_run_changed_of_its_task(
    copy: Path, hub: type[Hub], capsys
) -> None:
    file = copy / "params/env.yaml"
    text = file.read_text()
    file.write_text(text.replace("episode_length_s: 5.0", "episode_length_s: 3.0"))
    assert file.read_text() != text
    assert push(copy, "--dry_run") == 0
    assert (hub.files, hub.asked) == ({}, [])
    card = capsys.readouterr().out
    assert "library_name: envlab" in card
    row = "| changed in it (its own value) | env.episode_length_s=3.0 (5.0) |"
    assert 0 < card.index(row) < card.index("| mean return |")


def test_an_exported_policy_is_pushed_with_its_own_checkpoint_only(
    run: envlab.TrainingRun, hub: type[Hub], monkeypatch, capsys
) -> None:
    monkeypatch.chdir(run.directory.parents[3])
    words = ["export", "rsl_rl", "--task=Isaac-Cartpole-v0", f"--checkpoint={run.checkpoint()}"]
    assert cli.main(words) == 0
    exported = run.directory / "exported"
    assert json.loads((exported / EXPORTED_FROM).read_text()) == {"iteration": 2}
    assert push(run.directory, "--checkpoint=latest") == 0
    assert "exported/policy.onnx" in hub.files
    assert b"policy without envlab" in hub.files["README.md"]
    hub.files.clear()
    (exported / EXPORTED_FROM).write_text('{"iteration": 1}')
    assert push(run.directory, "--checkpoint=latest") == 0
    assert "is left out: it is of another checkpoint than iteration 2" in capsys.readouterr().out
    assert "exported/policy.onnx" not in hub.files
    assert b"policy without envlab" not in hub.files["README.md"]
    shutil.rmtree(exported)


def test_a_refusal_to_push_is_one_sentence(run: envlab.TrainingRun, hub: type[Hub], capsys) -> None:
    for to, words, sentence in [
        ("hf:walker", [], "its form is hf:OWNER/NAME"),
        ("me/walker", [], "its form is hf:OWNER/NAME"),
        ("hf:me/walker", ["--checkpoint=none.pt"], "has no checkpoint 'none.pt'"),
    ]:
        assert push(run.directory, *words, to=to) == 2
        assert sentence in capsys.readouterr().err
        assert hub.files == {}


def linked(path: Path, to: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(to)


def test_a_link_that_leads_out_of_the_run_is_not_followed(
    run: envlab.TrainingRun, hub: type[Hub], tmp_path: Path, capsys
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "id_rsa").write_text("secret")
    for name, to in [
        *(("params", "."), ("params/id.yaml", "id_rsa"), ("params/keys", ".")),
        *(("params/agent.yaml", "id_rsa"), ("exported/policy.onnx", "id_rsa"), ("exported", ".")),
        *(("checkpoints/best.pt", "id_rsa"), ("run.json", "id_rsa")),
        ("params/endless.yaml", "/dev/zero"),
    ]:
        stranger = shutil.copytree(run.directory, tmp_path / name.replace("/", "_"))
        linked(stranger / name, private / to)
        assert push(stranger) == 2
        said = capsys.readouterr().err
        assert f"{stranger / name} is a link that leads out of the run directory" in said
        assert hub.files == {}


def test_what_else_lies_among_the_parameters_is_not_sent(copy: Path, hub: type[Hub]) -> None:
    (copy / "params/keys").mkdir()
    for name in ("notes.txt", "keys/id.yaml"):
        (copy / "params" / name).write_text("secret")
    assert push(copy) == 0
    assert {name for name in hub.files if name.startswith("params/")} == {
        *("params/agent.yaml", "params/env.yaml")
    }


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def manifest_with(**values: Any) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        file = directory / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def more_ranks(directory: Path) -> None:
    file = directory / "checkpoints/best.pt"
    values = load_checkpoint(file) | {"world_size": 10**10}
    save_checkpoint(file, {key: one for key, one in values.items() if key != "format_version"})


def test_a_damaged_run_is_refused_in_one_sentence(
    run: envlab.TrainingRun, hub: type[Hub], tmp_path: Path, capsys
) -> None:
    for change, sentence in [
        (lambda run: pipe(run / "params/env.yaml"), "env.yaml is not a regular file"),
        (lambda run: shutil.rmtree(run / "params"), "agent.yaml cannot be read"),
        (
            lambda run: linked(run / "params/env.yaml", run / "params/env.yaml"),
            "Too many levels of symbolic links",
        ),
        (more_ranks, "ranks is missing or invalid"),
        (manifest_with(mean_return="high"), "mean_return must be float, but is 'high'"),
        (manifest_with(task="a\n- b: [c]"), "has the task 'a\\n- b: [c]'"),
        (manifest_with(task=None), "has the task None"),
        (manifest_with(library="x\nlicense: mit"), "has the library"),
        (manifest_with(algorithm="PPO\n\n# Heading"), "has the algorithm"),
    ]:
        stranger = shutil.copytree(run.directory, tmp_path / f"{len(list(tmp_path.iterdir()))}")
        change(stranger)
        assert push(stranger) == 2
        assert sentence in capsys.readouterr().err
        assert hub.files == {}


def test_an_exported_policy_without_facts_or_end_is_left_out(
    copy: Path, hub: type[Hub], capsys
) -> None:
    (copy / "exported").mkdir()
    with (copy / "exported/policy.onnx").open("wb") as file:
        file.truncate(2**40)  # without contents, it has no blocks on the disk
    (copy / "exported" / EXPORTED_FROM).write_text("[2]")
    assert push(copy) == 0
    assert "policy.onnx is left out" in capsys.readouterr().out
    assert not [name for name in hub.files if name.startswith("exported")]


def test_a_manifests_texts_stay_in_their_cells(copy: Path, capsys) -> None:
    manifest_with(
        command="envlab train |\n\n# Heading",
        versions={"envlab": "1\n---\nlicense: mit"},
        git={"commit": "abc\x1b[2J|\n---"},
    )(copy)
    assert push(copy, "--dry_run") == 0
    card = capsys.readouterr().out
    metadata, text = card.removeprefix("---\n").split("---\n", 1)
    assert yaml.safe_load(metadata) == {
        "library_name": "envlab",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["envlab", *("reinforcement-learning", "robotics", "Isaac-Cartpole-v0", "rsl_rl")],
    }
    assert "| command | `envlab train \\| # Heading` |" in text
    assert "| versions | envlab 1 --- license: mit |" in text
    assert "| code | envlab at abc\\x1b[2J\\| --- |" in text


def test_without_network_it_is_one_sentence(run, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    assert push(run.directory) == 2
    assert "hf:me/walker was not pushed" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    words = ["play", "rsl_rl", "--task=Isaac-Cartpole-v0", "--checkpoint=hf:me/walker"]
    assert cli.main(words) == 2
    assert "hf:me/walker cannot be fetched" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


NAMES = ["run.json", "params/env.yaml", "checkpoints/model_9.pt", "checkpoints/model_10.pt"]
LEADING_OUT = ["../run.json", "x/../../params/a.yaml", "../checkpoints/model_99.pt"]


@pytest.mark.parametrize(
    ("names", "file", "chosen"),
    [
        (NAMES, "", "checkpoints/model_10.pt"),
        ([*NAMES, *LEADING_OUT], "", "checkpoints/model_10.pt"),
        ([*NAMES, "checkpoints/best.pt"], "best.pt", "checkpoints/best.pt"),
        (["run.json", "checkpoints/policy.pt"], "", "checkpoints/policy.pt"),
    ],
)
def test_wandb_gives_the_newest_checkpoint_or_the_one_that_is_named(
    names: list[str], file: str, chosen: str, tmp_path: Path, monkeypatch
) -> None:
    def of_run(path: str) -> SimpleNamespace:
        assert path == "me/robots/1a2b"
        return SimpleNamespace(files=lambda: [_wandb_file(name) for name in names])

    fake = SimpleNamespace(Api=lambda: SimpleNamespace(run=of_run), __spec__=object())
    monkeypatch.setitem(__import__("sys").modules, "wandb", fake)
    path = pretrained.fetch(f"wandb:me/robots/1a2b{file and f':{file}'}", root=str(tmp_path))
    folder = tmp_path / "wandb/me--robots--1a2b"
    assert path == folder / chosen
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {folder / name for name in {*NAMES[:2], chosen} & set(names)}


def _wandb_file(name: str) -> SimpleNamespace:
    def download(root: str, replace: bool) -> None:
        Path(root, name).parent.mkdir(parents=True, exist_ok=True)
        Path(root, name).write_text(name)

    return SimpleNamespace(name=name, size=7, download=download)


def test_a_repository_without_a_run_is_refused_before_anything_is_fetched(
    hub: type[Hub], tmp_path: Path
) -> None:
    for names in [
        [],
        ["run.json", "model.safetensors"],
        ["run.json", "checkpoints/../../escape.pt", "../run.json"],
        ["checkpoints/model_1.pt"],
    ]:
        hub.files.clear()
        hub.files |= dict.fromkeys(names, b"x")
        with pytest.raises(CheckpointError, match="holds no run of envlab"):
            pretrained.fetch("hf:me/walker", root=str(tmp_path))
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_name_of_another_form_is_refused(tmp_path: Path) -> None:
    for selector in ("hf:walker", "hf:a/../b", "wandb:me/robots"):
        with pytest.raises(CheckpointError, match="its form is"):
            pretrained.fetch(selector, root=str(tmp_path))
    assert not pretrained.is_remote("latest")
