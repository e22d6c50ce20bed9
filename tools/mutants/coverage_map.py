"""Which tests run a line, in pytest's process or in one that a test starts, and how long each test takes."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import coverage

SETTINGS = """[run]
source_pkgs = gmi_drl
parallel = true
sigterm = true
patch = _exit
data_file = {data}
context = ${{PYTEST_CURRENT_TEST-}}
"""

MOST_S = 60.0
"""Seconds of tests from other folders that are run against a mutant."""


@dataclass
class CoverageMap:
    """Tests by file and line, and seconds by test.

    Args:
        lines: File -> line -> names of tests.
        seconds: Name of a test -> seconds that it took while coverage was measured.
        digests: Of the files of package and tests at that time.
    """

    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def tests_for(self, path: str, line: int, most_s: float = MOST_S) -> list[str]:
        """Tests that run a line: those of its module, of its folder, then the quickest others, up to `most_s` seconds.

        Test files of the same folder are taken whole, because their tests may share what the first of them started. A
        line that runs when its module is imported belongs to all tests of the module. A line that no test was seen to
        run belongs to the module's test file, or without one to all tests of the module: a killed process reports no
        lines.
        """
        here, own, folder = self.lines.get(path, {}), mirrored(path), f"{Path(mirrored(path)).parent}/"
        known = set(here.get(line, ())) & self.seconds.keys()
        if not known and line not in here:
            known = {test for test in self.seconds if test.startswith(own)}
        if not known:
            known = {test for tests in here.values() for test in tests} & self.seconds.keys()
        files = {_file(test) for test in known if test.startswith(folder)}
        known |= {test for test in self.seconds if _file(test) in files}
        near = sorted(
            (test for test in known if test.startswith(folder)),
            key=lambda test: (not test.startswith(own), self.seconds[test]),
        )
        spent_s, far = 0.0, []
        for test in sorted(known - set(near), key=lambda test: (self.seconds[test], test)):
            spent_s += self.seconds[test]
            if spent_s > most_s:
                break
            far.append(test)
        return near + far

    def stale_tests(self, digests: Mapping[str, str], tests: Sequence[str] = ("tests",)) -> list[str]:
        """What must be measured again for these digests: of `tests` the files that changed, or all if others did."""
        changed = [name for name in {**self.digests, **digests} if self.digests.get(name) != digests.get(name)]
        if all(_is_test(name) for name in changed):
            return sorted(name for name in changed if any(Path(name).is_relative_to(folder) for folder in tests))
        return [*tests]

    def renewed(self, other: "CoverageMap", tests: Iterable[str]) -> "CoverageMap":
        """The map with `other`'s lines and times for these test files in place of its own."""
        gone = set(tests)
        lines = {file: {line: [*names] for line, names in by.items()} for file, by in other.lines.items()}
        for file, by in self.lines.items():
            for line, names in by.items():
                kept = [name for name in names if _file(name) not in gone]
                lines.setdefault(file, {}).setdefault(line, []).extend(kept)
        seconds = {name: seconds for name, seconds in self.seconds.items() if _file(name) not in gone}
        return CoverageMap(lines, seconds | other.seconds, other.digests)

    def save(self, path: Path) -> None:
        """Write the map to a file."""
        path.write_text(json.dumps(vars(self)))

    @classmethod
    def load(cls, path: Path) -> "CoverageMap":
        """Read a map from a file."""
        facts = json.loads(path.read_text())
        lines = {file: {int(line): tests for line, tests in by.items()} for file, by in facts["lines"].items()}
        return cls(lines, facts["seconds"], facts["digests"])


def digests_of(root: Path) -> dict[str, str]:
    """Digests of all files of package and tests, by their paths in the checkout."""
    files = [file for folder in ("gmi_drl", "tests") for file in sorted((root / folder).rglob("*.py"))]
    return {str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def _file(test: str) -> str:
    return test.partition("::")[0]


def mirrored(path: str) -> str:
    """`gmi_drl/comm/gloo.py` -> `tests/comm/test_gloo`."""
    part = Path(path).relative_to("gmi_drl")
    return str(Path("tests", part.parent, f"test_{part.stem}"))


def measure(root: Path, scratch: Path, workers: int, tests: Iterable[str] = ("tests",)) -> CoverageMap:
    """Run tests of the checkout `root` with coverage in all their processes. Tests that fail are left out."""
    digests = digests_of(root)
    tests = [test for test in tests if (root / test).exists()]
    if not tests:
        return CoverageMap(digests=digests)
    scratch.mkdir(parents=True, exist_ok=True)
    for old in scratch.glob("coverage*"):
        old.unlink()
    settings, report = scratch / "coveragerc", scratch / "junit.xml"
    settings.write_text(SETTINGS.format(data=scratch / "coverage"))
    line = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutants.contexts", "-n", str(workers)]
    line += ["--dist", "loadfile", f"--junitxml={report}", "-o", "junit_family=xunit1", *tests]
    paths = os.pathsep.join(map(str, (root, Path(__file__).parents[2])))
    places = {"PYTHONPATH": paths, "COVERAGE_PROCESS_START": str(settings), "PYTEST_CURRENT_TEST": ""}
    subprocess.run(line, cwd=root, env=os.environ | places, check=False)
    combined = coverage.Coverage(data_file=str(settings.with_name("coverage")), config_file=False)
    combined.combine([str(scratch)])
    combined.save()
    data = combined.get_data()
    files = [Path(file) for file in data.measured_files() if Path(file).is_relative_to(root / "gmi_drl")]
    lines = {str(file.relative_to(root)): _by_line(file, data.contexts_by_lineno(str(file))) for file in files}
    return CoverageMap(lines, _seconds(report), digests)


def _by_line(file: Path, contexts: dict[int, list[str]]) -> dict[int, list[str]]:
    """Names of tests by line, as pytest takes them. A line that runs at import has none."""
    inside = _in_functions(file.read_text())
    return {
        line: sorted({_test(name) for name in names if name and line in inside}) for line, names in contexts.items()
    }


def _in_functions(text: str) -> set[int]:
    """The lines inside functions."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    ranges = (range(function.body[0].lineno, (function.end_lineno or 0) + 1) for function in functions)
    return set(chain.from_iterable(ranges))


def _test(context: str) -> str:
    """`tests/a.py::b[c (d)] (call)`, as PYTEST_CURRENT_TEST has it, is `tests/a.py::b[c (d)]`."""
    return re.sub(r" \((setup|call|teardown)\)$", "", context)


def _seconds(report: Path) -> dict[str, float]:
    """Seconds of the tests that passed."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        if not {"failure", "error", "skipped"} & {child.tag for child in case}:
            seconds[f"{case.get('file')}::{case.get('name')}"] += float(case.get("time") or 0)
    return dict(seconds)
