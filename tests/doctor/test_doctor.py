"""``envlab doctor``: its findings, skew between ranks, and that it never hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from envlab import cli
from envlab.distributed.audit import name_ranks
from envlab.doctor import libraries, machine
from envlab.doctor.child import probe_torch
from envlab.doctor.collectives import LARGE_BUDGET_S
from envlab.doctor.libraries import Package, finding_of_package
from envlab.doctor.machine import examine_devices, examine_machine
from envlab.doctor.network import examine_variables, finding_of_host
from envlab.doctor.probe import Answer, Probe, ask
from envlab.doctor.ranks import compare_facts, finding_of_clocks
from envlab.doctor.report import Finding, as_text
from envlab.libraries import Library
from tests.agents import free_port
from tests.launcher import Launch, torchrun
from tests.marked import marked, still_marked

HERE = Path(__file__).parent
TOKEN = "ENVLAB_TEST_PROBE"


@dataclass
class EndedDoctor:
    """The output of a doctor of two ranks, and its leftovers."""

    code: int
    output: str
    left: dict[int, int | None]

    @property
    def report(self) -> dict[str, Any]:
        lines = self.output.splitlines()
        return json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))

    def line(self, name: str) -> dict[str, Any]:
        """Return the only finding of a name."""
        (found,) = (each for each in self.report["findings"] if each["name"] == name)
        return found


def run_pair(folder: Path, *command: str | Path) -> EndedDoctor:
    launch = Launch(torchrun(2, *command), folder)
    try:
        return EndedDoctor(launch.wait(240), launch.output, launch.left())
    finally:
        launch.close()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory) -> EndedDoctor:
    """The whole doctor on two ranks of this machine."""
    folder = tmp_path_factory.mktemp("healthy")
    words = ["doctor", "--distributed", "--device=cpu", "--json"]
    return run_pair(folder, "-m", "envlab.cli", *words)


@pytest.fixture(scope="module")
def skewed(tmp_path_factory) -> EndedDoctor:
    """Two ranks that differ."""
    return run_pair(tmp_path_factory.mktemp("skewed"), HERE / "worker_doctor.py", "--json")


@pytest.mark.long  # its probes import all libraries, each in a process
def test_two_equal_ranks_are_found_well_and_reductions_between_them_measured(healthy):
    problems = [each for each in healthy.report["findings"] if each["state"] == "problem"]
    assert (healthy.code, healthy.report["problems"], problems) == (0, 0, []), healthy.output
    assert healthy.left == {}
    assert healthy.line("ranks")["text"].startswith("none:")
    assert "ranks 0-1 on cpu, by the interface " in healthy.line("node 0")["text"]
    # Reductions between them are measured.
    measured = healthy.report["facts"]["collectives"]
    assert 0 < measured["latency_s"] < 10
    if measured["latency_s"] * 16 <= LARGE_BUDGET_S:  # not measured on a machine that is too busy
        assert measured["bandwidth"]["4"] > 1e6  # any machine reaches a byte per microsecond
    assert len(measured["work_s"]) == len(measured["barrier_s"]) == 2
    # One machine has one clock; how well it can be read depends on how busy the machine is.
    assert abs(measured["clock_offsets_s"][1]) < 1.0 + measured["clock_error_s"]


@pytest.mark.long
def test_each_library_is_loaded_and_named_with_its_version(healthy):
    libraries = healthy.report["facts"]["libraries"]
    for name in ("rsl-rl-lib", "rl-games", "skrl", "torch", "mujoco"):
        found = healthy.line(name)
        assert found["state"] == "ok"
        assert found["text"].startswith(libraries["versions"][name])
    assert "all ranks; here on " in healthy.line("rl-games")["text"]
    assert libraries["loads"]["rl_games.torch_runner"] is None


@pytest.mark.long
def test_each_process_gets_a_device_and_threads_and_the_disk_is_left_clean(healthy):
    facts = healthy.report["facts"]
    assert facts["devices"]["devices"]["2"] == ["cpu", "cpu"]
    assert "CPU thread" in healthy.line("2 processes")["text"]
    folder = facts["machine"]["log_folder"]
    assert facts["machine"]["disk_mib_per_s"] > 0
    assert [path.name.split("_")[0] for path in Path(folder).iterdir()] == ["output"]


@pytest.mark.long
def test_skew_between_ranks_is_named_with_the_ranks_and_ends_all_with_code_1(skewed):
    version = skewed.line("torch")
    assert version["state"] == "problem"
    assert version["text"].endswith(" on rank 0, 2.12.1 on rank 1")
    assert "0123456789ab on rank 1" in skewed.line("envlab_tasks files")["text"]
    assert skewed.line("NCCL_DEBUG")["text"] == "not set on rank 0, INFO on rank 1"
    offsets = skewed.report["facts"]["collectives"]["clock_offsets_s"]
    assert offsets == pytest.approx([0.0, 100.0], abs=5.0)
    assert skewed.line("clocks")["text"].startswith("rank 1's is ")
    assert skewed.line("clocks")["text"].endswith(" s ahead of rank 0's")
    assert (skewed.report["problems"], skewed.code, skewed.left) == (2, 1, {})


def test_a_rank_that_never_comes_is_reported_in_time(tmp_path):
    command = ["env", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1"]
    command += [f"MASTER_PORT={free_port()}", sys.executable, "-m", "envlab.cli", "doctor"]
    launch = Launch([*command, "--distributed", "--device=cpu", "--timeout_s=2"], tmp_path)
    try:
        assert launch.wait(60) == 1
        assert "rank 0 has waited 2 s in the rendezvous for the other ranks" in launch.output
        assert "Traceback" not in launch.output
        assert launch.left() == {}
    finally:
        launch.close()


def test_a_probe_that_hangs_is_killed_with_its_children(tmp_path, monkeypatch):
    (tmp_path / "quick_one.py").write_text("")
    started = tmp_path / "started"
    (tmp_path / "hanging_one.py").write_text(
        "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\n"
        f"open({str(started)!r}, 'w').close()\ntime.sleep(600)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(TOKEN, str(tmp_path))
    for deadline_s in (3.0, 30.0):  # a busy machine may need more than 3 s for it
        names = ["quick_one", "hanging_one"]
        probe = Probe(name="imports_test", deadline_s=deadline_s, arguments=names)
        start = time.monotonic()
        try:
            answer = ask([probe])["imports_test"]
            left = still_marked(TOKEN, str(tmp_path))
        finally:
            for pid in marked(TOKEN, str(tmp_path)):
                os.kill(pid, signal.SIGKILL)
        assert left == {}
        assert time.monotonic() - start < deadline_s + 30.0
        if started.exists():
            break
    assert answer.problem == f"no answer within {deadline_s:.0f} s"
    assert answer.get("module") == "quick_one"  # earlier facts still count


def test_a_library_that_crashes_does_not_hide_later_ones(tmp_path, monkeypatch):
    (tmp_path / "fine_one.py").write_text("")
    (tmp_path / "dying_one.py").write_text("import os, signal\nos.kill(os.getpid(), 11)\n")
    (tmp_path / "broken_one.py").write_text("raise ValueError('numpy is too new')\n")
    names = {"numpy": "fine_one", "tqdm": "dying_one", "PyYAML": "broken_one", "torch": "fine_one"}
    packages = [Package(name, "test", module, "test") for name, module in names.items()]
    monkeypatch.setattr(libraries, "packages", lambda: packages)
    monkeypatch.syspath_prepend(tmp_path)
    answers = {"torch": Answer()} | ask(libraries.library_probes())
    findings, _ = libraries.examine_libraries(answers)
    states = {finding.name: (finding.state, finding.text) for finding in findings}
    assert states["numpy"][0] == states["torch"][0] == "ok"
    assert states["tqdm"][0] == "problem"
    assert "ended by SIGSEGV" in states["tqdm"][1]
    assert "ValueError: numpy is too new" in states["PyYAML"][1]


def test_packages_of_a_third_partys_library_are_checked(monkeypatch):
    names = dict.fromkeys(("cfg", "build", "player", "description"), "")
    other = Library(name="other", packages={"other-lib": "other.core"}, **names)
    monkeypatch.setattr(libraries, "libraries", lambda: {"other": other})
    wanted = Package("other-lib", "other", "other.core", "torch")
    assert wanted in libraries.packages()
    found = finding_of_package(wanted, None, SpecifierSet(), None, "")
    assert (found.state, found.text) == ("problem", "not installed")


RSL_RL = Package("rsl-rl-lib", "rsl_rl")
JAX = Package("jax", "skrl on JAX", extra="pip install jax")


def test_a_package_is_judged_by_version_and_need():
    for package, version, problem, state, said in [
        (RSL_RL, "5.5.1", None, "ok", "5.5.1 (supported: ==5.5.1); able"),
        (RSL_RL, "5.4.2", None, "problem", "5.4.2, but envlab supports ==5.5.1"),
        (RSL_RL, None, None, "problem", "not installed"),
        (RSL_RL, "5.5.1", "ImportError: no", "problem", "does not load: ImportError: no"),
        (JAX, None, None, "note", "only for skrl on JAX (pip install jax)"),
        (JAX, "0.1", "ImportError: no", "warning", "does not load"),
    ]:
        wanted = SpecifierSet("==5.5.1" if package is RSL_RL else "")
        found = finding_of_package(package, version, wanted, problem, "able")
        assert (found.state, said in found.text) == (state, True), found


def test_fewer_gpus_than_processes_are_reported_with_the_map():
    gpu = {"name": "GPU", "memory_bytes": 8 << 30, "capability": "9.0", "uuid": "a"}
    devices = {"1": ["cuda:0"], "2": ["cuda:0", "cuda:1"]}
    build = {"cuda_build": "13.0", "nccl": "2.28", "gloo": True, "gpus": [gpu, gpu]}
    places = {"devices": devices, "refused_at": 3, "refusal": "3 processes, but 2 GPUs."}
    renderer = Answer(facts=[{"chosen": "egl", "problems": ""}])
    findings, _ = examine_devices(Answer(facts=[build, places]), renderer)
    by_name = {finding.name: finding for finding in findings}
    assert by_name["2 processes"].text.startswith("cuda:0, cuda:1, ")
    assert by_name["3 or more"].text == "refused: 3 processes, but 2 GPUs."
    assert "cuda:1 GPU (8.0 GiB)" in by_name["GPUs"].text


def test_as_many_processes_are_promised_as_there_are_gpus(monkeypatch):
    """On a machine of one GPU all ranks resolve to cuda:0, but training refuses to share it."""
    gpu = SimpleNamespace(name="GPU", total_memory=8 << 30, major=9, minor=0, uuid="a")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: gpu)
    for count in (1, 2):
        monkeypatch.setattr("torch.cuda.device_count", lambda count=count: count)
        (*_, devices) = probe_torch("", "8")
        assert list(devices["devices"]) == [str(one) for one in range(1, count + 1)]
        assert devices["refused_at"] == count + 1


def test_a_renderer_that_fails_is_a_warning_with_the_cure():
    renderer = Answer(facts=[{"chosen": "disable", "problems": "MUJOCO_GL=egl: no library"}])
    findings, _ = examine_devices(Answer(facts=[{"devices": {}}]), renderer)
    (found,) = (finding for finding in findings if finding.name == "renderer")
    assert (found.state, "MUJOCO_GL=egl: no library" in found.text) == ("warning", True)
    assert "libegl1" in found.advice


def test_the_cache_of_kernels_is_found_full_empty_or_closed(monkeypatch, tmp_path):
    pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[dev]'")
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path))

    def found() -> Any:
        findings, _ = examine_devices(Answer(facts=[{"devices": {}}]), Answer())
        return next(finding for finding in findings if finding.name == "kernel cache")

    folder = tmp_path / metadata.version("warp-lang")
    assert (found().state, "envlab warm --task ID" in found().text) == ("note", True)
    (folder / "wp_one").mkdir(parents=True)
    assert (found().state, found().text) == ("ok", f"{folder}, 1 module of Warp's")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert (found().state, "WARP_CACHE_PATH" in found().advice) == ("warning", True)


def test_a_host_name_that_misleads_other_nodes_is_reported():
    for resolved, state, said in [
        (["192.0.2.2"], "ok", "which resolves to 192.0.2.2"),
        (["127.0.1.1"], "note", "good for one node, not for several"),
        (["198.51.100.7"], "warning", "no interface here has that address"),
        ([], "warning", "does not resolve"),
        (None, "warning", "no answer within 15 s"),
    ]:
        addresses = {"eth0": ["192.0.2.2"], "lo": ["127.0.0.1"]}
        found = finding_of_host("one", resolved, addresses, "no answer within 15 s")
        assert (found.state, said in found.text) == (state, True), found


def test_variables_are_judged_and_secrets_are_not_shown():
    judged = {
        "GLOO_SOCKET_IFNAME": ("nope0", "problem"),
        "NCCL_SOCKET_IFNAME": ("=lo", "ok"),
        "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "warning"),
    }
    others = {"WANDB_API_KEY": "secret", "SLURM_JWT": "secret", "HOME": "/root"}
    environ = {name: value for name, (value, _) in judged.items()} | others
    findings, shown = examine_variables(environ)
    states = {finding.name: finding.state for finding in findings}
    assert states == {name: state for name, (_, state) in judged.items()}
    assert "secret" not in str(findings) + str(shown)
    negated, _ = examine_variables({"NCCL_SOCKET_IFNAME": "^nope"})
    assert negated[0].state == "ok"


def this_machine(monkeypatch, **facts: Any) -> dict[str, Finding]:
    """Look at this machine, with some of its facts replaced."""
    monkeypatch.setattr(machine, "cpu_quota", lambda: facts.get("quota"))
    monkeypatch.setattr(machine, "free_bytes", lambda folder: facts.get("free", 64 << 30))
    disk = facts.get("disk", Answer(facts=[{"mib_per_s": 500.0}]))
    return {finding.name: finding for finding in examine_machine(disk)[0]}


def test_a_quota_below_the_cores_is_a_warning(monkeypatch):
    assert this_machine(monkeypatch, quota=0.5)["cores"].state == "warning"
    assert this_machine(monkeypatch)["cores"].state == "ok"


def test_a_disk_without_room_or_speed_is_reported(monkeypatch):
    for facts, name, state in [
        ({"free": 50 << 20}, "log folder", "problem"),
        ({"free": 1 << 30}, "log folder", "warning"),
        ({"free": 50 << 20}, "/dev/shm", "warning"),
        ({"disk": Answer(problem="Read-only file system")}, "log folder", "problem"),
        ({"disk": Answer(facts=[{"mib_per_s": 2.0}])}, "log folder", "warning"),
    ]:
        found = this_machine(monkeypatch, **facts)[name]
        assert (found.state, bool(found.advice)) == (state, True)


def test_another_commit_with_equal_files_is_only_a_note():
    same = {
        **{"version": {"torch": "2.13.0", "numpy": "2.4.6"}, "files": {"envlab": "a"}},
        **{"setting": {}, "machine": {"device": "cpu", "driver": "none"}},
        "place": {"host": "one", "device": "cpu", "interface": ""},
    }
    commits = ({"commit": {"commit": commit}} for commit in ("c0ffee", "beef"))
    (found,) = compare_facts([same | commit for commit in commits])
    assert (found.name, found.state) == ("commit", "note")


def test_ranks_are_named_in_spans():
    assert name_ranks(list("aabab")) == "a on ranks 0-1, 3, b on ranks 2, 4"


def test_clocks_within_the_measurement_error_are_no_warning():
    assert finding_of_clocks([0.0, -5.0], error_s=6.0).state == "ok"
    behind = finding_of_clocks([0.0, -5.0], error_s=0.1)
    assert (behind.state, "5.0 s behind rank 0's" in behind.text) == ("warning", True)


def test_advice_stands_at_the_end_problems_first():
    findings = [
        Finding(section="A", name="one", text="odd", state="warning", advice="mend it"),
        Finding(section="A", name="two", text="fine"),
        Finding(section="B", name="three", text="bad " * 40, state="problem", advice="act"),
    ]
    lines = as_text(findings).splitlines()
    assert lines[0] == "envlab doctor: 1 problem, 1 warning."
    assert lines[-2:] == ["  problem  three: act", "  warning  one: mend it"]
    assert max(map(len, lines)) <= 100
    assert lines[3].index("odd") == lines[4].index("fine")  # aligned


def test_a_problem_is_code_1_and_in_the_report(capsys, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nope0")
    assert cli.main(["doctor", "--only=variables,source"]) == 1
    out = capsys.readouterr().out
    assert "there is no interface nope0" in out
    assert "To do\n  problem  GLOO_SOCKET_IFNAME: name one of " in out


def test_it_starts_without_torch(tmp_path):
    code = (
        "import sys; from envlab.cli import main\n"
        "code = main(['doctor', '--only=variables,machine,network'])\n"
        "raise SystemExit('torch was loaded' if 'torch' in sys.modules else 0)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
