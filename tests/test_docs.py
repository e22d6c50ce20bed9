"""Pages of the documentation: links lead somewhere, code blocks run, tables are those of the code."""

import re
from pathlib import Path
from statistics import median

import pytest
from conftest import two_cores
from pages import gmi_drl

from gmi_drl import run_role
from gmi_drl.benchmarks.cases import CASES
from gmi_drl.benchmarks.report import load_results
from gmi_drl.workload import TASK_SPECS
from tools.site.pages import generated_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def code(page, kind="python"):
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def anchors(page):
    """Anchors of the headings, by the rule of GitHub and of the site."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    missing = []
    for link in LINK.findall(page.read_text()):
        name, _, anchor = link.partition("#")
        if link.startswith("http"):
            continue
        target = (page.parent / name).resolve() if name else page
        is_generated = target.is_relative_to(DOCS) and str(target.relative_to(DOCS)) in generated_names()
        is_there = target.exists() and (not anchor or anchor in anchors(target))
        missing += [] if is_there or is_generated else [link]
    assert not missing


def test_files_of_an_environment_are_named_by_absolute_paths(tmp_path):
    for text in (DOCS / "guides" / "own_robot.md").read_text(), gmi_drl(["train", "--help"], tmp_path).stdout:
        assert re.findall("urdf_path=(.)", text) == ["/"] and "relative" in text


@two_cores
def test_the_role_of_the_page_runs(tmp_path):
    role, _ = code("guides/roles.md")
    (tmp_path / "averager.py").write_text(role)
    layout = tmp_path / "layout.yaml"
    assert gmi_drl(["plan", "--budget", "0", "--gmis-per-gpu", "2", "-o", str(layout)], tmp_path).returncode == 0
    results = run_role(f"{tmp_path}/averager.py:Averager", layout, {"rounds": 3}, run_dir=tmp_path / "run")
    assert results == {0: [0.5] * 4, 1: [0.5] * 4}


def test_the_robot_of_the_page_is_checked_and_trained(tmp_path):
    robot, check = code("guides/own_robot.md")
    (points,) = re.findall(r'"gmi_drl.tasks"\]\n(\w+) = "(.*)"', code("guides/own_robot.md", "toml")[0])
    (tmp_path / "cartpole.py").write_text(robot)
    info = tmp_path / "cartpole-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cartpole\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[gmi_drl.tasks]\n{' = '.join(points)}\n")
    names = {"PYTHONPATH": str(tmp_path), "GMI_DRL_CLAIMS": str(tmp_path / "claims")}
    command = ["train", "--task", "cartpole", "--num-env", "8", "--iterations", "2", "--gmis-per-gpu", "1"]
    run = gmi_drl([*command, "--run-dir", "run"], tmp_path, **names)
    assert run.returncode == 0, run.stderr
    namespace = {}
    exec(robot, namespace)
    exec(check.replace("from cartpole import make_task", ""), namespace)


def test_rows_of_metrics_are_read_as_the_page_says(tmp_path, monkeypatch, capsys):
    row = '{"iteration": 1, "env_steps": 8, "steps_per_second": 9.5, "return_mean": null}\n'
    (tmp_path / "runs" / "ant").mkdir(parents=True)
    (tmp_path / "runs" / "ant" / "metrics.jsonl").write_text(row)
    monkeypatch.chdir(tmp_path)
    exec(code("guides/logging.md")[0], {})
    assert capsys.readouterr().out == "1 8 9.5 None\n"


@pytest.mark.parametrize("task", TASK_SPECS.values(), ids=TASK_SPECS)
def test_tasks_are_shown_with_their_sizes_and_returns_with_what_was_measured(task):
    page = (DOCS / "guides" / "tasks.md").read_text()
    assert f"| `{task.name}` | {task.alias} | {task.observation.size}, {task.action.size} |" in page
    (samples,) = load_results(ROOT / "benchmarks" / "results")[f"learning_{task.name}"].samples.values()
    returns = [sample.value for sample in samples]
    untrained = median(sample.details["untrained"] for sample in samples)
    measured = f"{median(returns):,.0f} ({min(returns):,.0f} to {max(returns):,.0f})"
    assert f"| `{task.name}` | {untrained:,.0f} | {measured} | {len(returns)} |" in page


def test_each_entry_of_the_changelog_is_one_line():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 125 or line.startswith(" ")] == []


def test_the_map_of_the_paper_names_what_is_there():
    text = (DOCS / "paper_map.md").read_text()
    files = re.findall(r"`([a-z_0-9/]+\.py)`", text)
    assert [name for name in files if not any((root / name).is_file() for root in (ROOT / "gmi_drl", ROOT))] == []
    for name in re.findall(r"`((?:gmis|tcg|learning|table_8|algorithm_2|channels|reductions|sharing)_[\w*]+)`", text):
        pattern = name.replace("*", ".*").replace("TASK", ".*")
        assert any(re.fullmatch(pattern, case) for case in CASES), name
    for number in range(1, 12):
        assert re.search(rf"^\| {number}a? ", text.split("## Figures")[1], re.MULTILINE)
    for number in range(1, 9):
        assert f"\n| {number} " in text.split("## Tables")[1].split("## Figures")[0]
        assert f"\n| {number} " in text.split("## Sections")[1].split("## Algorithms")[0]
