"""Generated pages list the current tasks and robots, and the commands of all pages work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envlab.errors import ConfigurationError
from envlab.registry import list_tasks
from tests.launcher import ROOT, run
from tests.scripts.of_scripts import load


@pytest.mark.long
def test_the_page_of_tasks_is_up_to_date():
    written = (ROOT / "docs/tasks.md").read_text()
    assert load("documentation/tasks").page() == written, (
        "run: python scripts/documentation/tasks.py"
    )


def test_the_page_of_tasks_has_each_task_and_picture():
    written = (ROOT / "docs/tasks.md").read_text()
    of_tests = ("Experiment-", "Test-")
    names = {task.id for task in list_tasks() if not task.id.startswith(of_tests)}
    assert sorted(name for name in names if name not in written) == []
    assert all(f"### {task.id}\n" in written for task in load("documentation/tasks").pictured())


def test_the_page_of_joint_orders_is_up_to_date():
    written = (ROOT / "docs/joint_orders.md").read_text()
    page = load("documentation/joint_orders").page()
    assert page == written, "run: python scripts/documentation/joint_orders.py"


def test_the_page_of_terms_is_up_to_date():
    written = (ROOT / "docs/terms.md").read_text()
    assert load("documentation/terms").page() == written, (
        "run: python scripts/documentation/terms.py"
    )


def test_each_word_is_used_by_a_task_or_a_test():
    page = (ROOT / "docs/terms.md").read_text().partition("## What differs")[0]
    words = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert len(words) > 250
    folders = (ROOT / "source/envlab_tasks", ROOT / "tests")
    code = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    used = set(re.findall(r"\w+", code))
    assert [word for word in words if word.removeprefix("dr.") not in used] == []


def section(link: str) -> str:
    """Return the section of a heading, or the row of a table, that ``page.md#it`` names."""
    path, _, anchor = link.partition("#")
    text = (ROOT / path).read_text()
    if row := re.search(rf'^.*<a id="{anchor}">.*$', text, re.MULTILINE):
        is_heading = row.group().startswith("#")
        return text[row.start() :].partition("\n## ")[0] if is_heading else row.group()
    parts = re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]
    slugs = [re.sub(r"[^\w\- ]", "", part.partition("\n")[0]).lower() for part in parts]
    return parts[[slug.replace(" ", "-") for slug in slugs].index(anchor)] if anchor else text


def rows_of_readme(heading: str) -> list[list[str]]:
    """Return the cells of a table of README's, without its two head rows."""
    part = (ROOT / "README.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def test_each_result_in_the_readme_is_in_what_it_links_to():
    captions = [cell for row in rows_of_readme("Results") for cell in row if "](" in cell]
    captions = [cell for cell in captions if not cell.startswith("!")]
    assert len(captions) == 6
    for caption in captions:
        (name, link), result = re.search(r"\[(.+?)\]\((.+?)\)", caption).groups(), caption
        story = section(link).replace(",", "")
        figures = re.findall(r"\d[\d.]*\d|\d", re.sub(r"\[.+?\]\(.+?\)", "", result))
        missing = [figure for figure in figures if figure not in story]
        assert figures, name
        assert not missing, f"{name}: {missing} of {result!r}"


def test_each_comparison_in_the_readme_links_to_where_it_is_explained():
    rows = rows_of_readme("Compared with Isaac Lab and mjlab")
    assert len(rows) == 8
    for name, *_ in rows:
        assert len(section(re.search(r"\]\((.+?)\)", name).group(1))) > 100, name


def test_the_readme_fits_one_screen_of_reading():
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_commands_are_found_with_the_scripts_they_name():
    commands = load("documentation/commands").find_commands()
    (torchrun,) = [c for c in commands if c.page == "README.md" and "torch.distributed" in c.text]
    assert "--task=Isaac-Cartpole-v0 --headless --distributed" in torchrun.text
    run = [command.words(port=1234) for command in commands if not command.skipped]
    assert len(run) > 40
    scripts = {word for words in run for word in words if word.endswith(".py")}
    assert all((ROOT / script).is_file() for script in scripts)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == "own_robot.md" else [pytest.mark.long])
        for page in load("documentation/commands").TUTORIALS
    ],
)
def test_a_tutorial_leads_where_it_says(page: str, tmp_path: Path):
    script = load("documentation/commands")
    script.prepare(tmp_path)
    commands = [command for command in script.find_commands(page) if not command.skipped]
    assert len(commands) >= 2
    for command in commands:
        code, output = run(script.globbed(command.words(port=0), tmp_path), tmp_path)
        assert code == 0, f"{command.text}\n{output}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_command_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert load("documentation/commands").main([f"--folder={tmp_path}"]) == 0, (
        capsys.readouterr().out
    )


@pytest.mark.long
def test_agilerls_files_are_counted_by_outcome(tmp_path: Path):
    config = "algorithm: {name: IPPO}\nenvironment: {name: simple_v3}\n"
    for name, text in {
        "configs/training/one.yaml": config,
        "configs/training/two.yaml": config,
        "demos/demo_names.py": "from agilerl.algorithms import DQN\nDQN\n",
        "demos/demo_several.py": "from agilerl.algorithms import IPPO\n",
        "demos/other.py": "import agilerl\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    module = load("documentation/from_agilerl")
    written = module.table(list(module.rows(tmp_path)))
    assert "Of 2 configurations 0 train, and 2 end in one sentence." in written
    files = "`configs/training/one.yaml`, `configs/training/two.yaml`"
    assert f"| {files} | IPPO | the file trains IPPO, which does not evolve here" in written
    written = module.table_of_programs("2.9.1", list(module.programs(tmp_path)))
    assert "Of 2 programs of 2.9.1 1 run." in written
    assert "| `demos/demo_names.py` | runs |" in written
    assert "| `demos/demo_several.py` | IPPO is an algorithm which does not evolve here" in written
    shorter = module.shortened('max_steps = 200_000\n"EVO_STEPS": 5')
    assert shorter == 'max_steps = 800\n"EVO_STEPS": 400'
    with pytest.raises(ConfigurationError, match="has no configs/training"):
        list(module.rows(tmp_path / "demos"))


def test_ids_of_isaac_lab_are_counted_without_running_its_files(tmp_path, monkeypatch, capsys):
    tasks = tmp_path / "2.3.2/source/isaaclab_tasks/isaaclab_tasks"
    (tasks / "test").mkdir(parents=True)
    ids = ("Isaac-Ant-v0", "Isaac-Velocity-Flat-AnymalD", "Isaac-Lift-Cube-OpenArm-v0", "Isaac-New")
    registrations = "".join(f"gym.register(id={task_id!r})\n" for task_id in ids)
    (tasks / "__init__.py").write_text("raise SystemExit\n" + registrations)
    (tasks / "test/test_tasks.py").write_text("gym.register(id='Isaac-Test-v0')\n")
    module = load("documentation/from_isaac_lab")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- from_isaac_lab.py -->\nold\n<!-- until here -->\nafter\n")
    monkeypatch.setattr(module, "PAGE", page)
    assert module.main([str(tmp_path / "2.3.2"), "--verbose"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Isaac-Ant-v0: here, by the same id"
    before, *rows, after = page.read_text().splitlines()
    assert (before, after) == ("before", "after")
    counts = dict(row.strip("| ").split(" | ") for row in rows[3:-1])
    ones = ("by the same id", "by the id of 2.3.2")
    wanted = dict.fromkeys(
        [*(f"here, {one}" for one in ones), "robots that are not here", "others"], 1
    )
    assert {row: int(count) for row, count in counts.items() if int(count)} == wanted | {"all": 4}
    with pytest.raises(ConfigurationError, match="no folder isaaclab_tasks"):
        module.main([str(tasks)])
