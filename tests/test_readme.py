"""What the README tells people to type works, with tiny numbers; what it links to exists."""

import re
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from conftest import two_cores
from pages import gmi_drl, transcripts

from gmi_drl import run_role
from gmi_drl.benchmarks.report import load_results
from gmi_drl.workload import TASK_SPECS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SMALL = {"GMI_DRL_PLAN_NUM_ENV": "8", "GMI_DRL_TRAIN_NUM_ENV": "8"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
]


def test_the_commands_of_the_readme_run(tmp_path):
    commands = [arguments for arguments, _ in transcripts(README)]
    assert [command[0] for command in commands] == ["plan", "train", "status"]
    for arguments in commands:
        short = ["2" if before == "--iterations" else word for before, word in pairwise(["", *arguments])]
        # A layout file decides num_env, so the variable for it must not reach that command.
        small = {name: value for name, value in SMALL.items() if "TRAIN" not in name or "layout.yaml" not in arguments}
        run = gmi_drl(short, tmp_path, **small)
        assert run.returncode == 0, run.stderr
    assert "done" in run.stdout


def test_files_of_an_environment_are_named_by_absolute_paths(tmp_path):
    for text in README, gmi_drl(["train", "--help"], tmp_path).stdout:
        assert re.findall("urdf_path=(.)", text) == ["/"] and "relative" in text


@two_cores
def test_the_role_of_the_readme_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (role,) = [block for block in blocks if "class Averager" in block]
    (tmp_path / "averager.py").write_text(role)
    layout = tmp_path / "layout.yaml"
    assert gmi_drl(["plan", "--budget", "0", "--gmis-per-gpu", "2", "-o", str(layout)], tmp_path).returncode == 0
    results = run_role(f"{tmp_path}/averager.py:Averager", layout, {"rounds": 3}, run_dir=tmp_path / "run")
    assert results == {0: [0.5] * 4, 1: [0.5] * 4}


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_the_make_targets_of_the_readme_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("task", TASK_SPECS.values(), ids=TASK_SPECS)
def test_tasks_are_shown_with_their_sizes_and_returns_with_what_was_measured(task):
    assert f"| `{task.name}` | {task.alias} | {task.observation.size}, {task.action.size} |" in README
    (samples,) = load_results(ROOT / "benchmarks" / "results")[f"learning_{task.name}"].samples.values()
    returns = [sample.value for sample in samples]
    untrained = median(sample.details["untrained"] for sample in samples)
    measured = f"{median(returns):,.0f} ({min(returns):,.0f} to {max(returns):,.0f})"
    assert f"| `{task.name}` | {untrained:,.0f} | {measured} | {len(returns)} |" in README
