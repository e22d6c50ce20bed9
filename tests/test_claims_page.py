"""Each ratio of README and of the pages is in the list of claims, with a result that says it and a command."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from gmi_drl.benchmarks.cases import CASES, MODULES
from gmi_drl.benchmarks.report import load_results

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
LIST = DOCS / "claims.md"
RATIO = re.compile(r"\d+\.\d+x(?: \([\d.]+(?:-| to )[\d.]+\))?")
ROWS = re.findall(
    r"^\| \[.+?\]\((.+?)\) \| (.+?) \| \[.+?\]\(\.\./benchmarks/results/(.+?)\) \| `(.+?)` \|$",
    LIST.read_text(),
    re.MULTILINE,
)
OTHERS = re.findall(r"^\| \[.+?\]\(\.\./benchmarks/results/(.+?)\) \| `(.+?)` \|$", LIST.read_text(), re.MULTILINE)
COMMANDS = sorted({command for *_, command in ROWS} | {command for _, command in OTHERS})

GENERATED = {
    *("claims.md", "same_speed.md", "same_numbers.md", "mutants.md", "gpu_day.md"),
    *("internals/ten_machines.md", "start/half_hour.md"),
}
"""Pages of transcripts, and those that a script writes."""

OF_THE_PAPER = {"1.86x", "2.81x"}
"""Figures of GMI-DRL's own machine."""

PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if str(page.relative_to(DOCS)) not in GENERATED),
]


@cache
def results():
    """The committed results of cases, by the names of their files."""
    return load_results(RESULTS)


def prose(page):
    """A page without its blocks of code, which are transcripts."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_ratio_of_a_page_is_a_claim_of_the_list(page):
    listed = {ratio for place, ratio, *_ in ROWS if (DOCS / place).resolve() == page}
    assert set(RATIO.findall(prose(page))) - OF_THE_PAPER == listed


@pytest.mark.parametrize(("place", "ratio", "result", "command"), ROWS)
def test_a_claim_is_what_its_result_says(place, ratio, result, command):
    file, number = RESULTS / result, ratio.partition("x")[0]
    if file.suffix == ".json":
        found = results()[file.stem]
        said = {str(one) for one in found.ratios.values()}
        said |= {f"{one.median:.2f}x" for one in found.ratios.values()}
        assert ratio.replace(" to ", "-") in {text.replace("range ", "") for text in said}
        assert command == f"gmi-drl bench {found.case.name}"
    elif file.suffix == ".txt":
        assert re.search(rf"\b{re.escape(number)}\b", file.read_text())
    else:
        assert file.is_dir()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_claim_exists(command):
    folder, words = ROOT, shlex.split(command)
    if words[0] == "cd":
        folder, words = ROOT / words[1], words[3:]
    if words[:2] == ["gmi-drl", "bench"]:
        assert words[2] in CASES
        return
    assert words[0] == "python"
    script = (folder / words[1]).read_text()
    options = [word for word in words[2:] if word.startswith("--") or word.isidentifier()]
    assert all(f'"{option}"' in script for option in options)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("gmi-drl bench")])
def test_the_case_of_a_claim_is_run_by_a_test_with_tiny_sizes(command):
    name = command.split()[-1]
    module = MODULES[name].rpartition(".")[2]
    tests = [path.read_text() for path in (ROOT / "tests" / "benchmarks" / "cases").rglob("test_*.py")]
    assert any(name in text or re.search(rf"\b{module}\b", text) for text in tests)


def test_every_result_that_a_page_links_has_a_command():
    known = {result.partition("/")[0] for result, _ in OTHERS} | {result.partition("/")[0] for _, _, result, _ in ROWS}
    cases = {f"{name}.json" for name in results()}
    linked = {
        link.partition("/")[0]
        for page in PAGES
        for link in re.findall(r"\]\([./]*benchmarks/results/([^)#]+)\)", page.read_text())
    }
    pictures = {link for link in linked if link.endswith(".png")}
    assert linked - known - cases - pictures == set()
