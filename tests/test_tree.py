"""What CONTRIBUTING says of every file is true of every file."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("gmi_drl", "tests", "tools", "benchmarks", "examples")
FILES = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
OF_OTHERS = {"EnvironmentFile", "MujocoEnv", "ParallelEnv", "Pong", "PossiblePlacements", "CUipcMemHandle"}
"""Names that docstrings take from systemd, Gymnasium, PettingZoo, Atari, NVML and CUDA."""
LEAST_DEADLINE_S = 30
"""What a bound of a test must give a busy machine; less is a bound on speed."""


def test_no_file_is_longer_than_350_lines():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in FILES}
    assert {name.split("/")[0] for name in lengths} == set(PARTS)
    assert {name: lines for name, lines in lengths.items() if lines > 350} == {}


def test_no_two_files_of_tests_have_one_name():
    names = Counter(file.stem for file in (ROOT / "tests").rglob("*.py") if file.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_are_shorter_than_80_lines():
    long = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno + 1 >= 80
    ]
    assert long == []


def test_no_test_asks_for_seconds_that_a_busy_machine_may_not_have():
    bound = re.compile(r"assert time\.\w+\(\) - \w+ < (\d+)")
    short = [
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in (ROOT / "tests").rglob("*.py")
        for found in bound.finditer(file.read_text())
        if int(found[1]) < LEAST_DEADLINE_S
    ]
    assert short == []


def test_classes_that_docstrings_name_exist():
    """After a rename a reader would look for them in vain."""
    known, named = set(OF_OTHERS), []
    for file in FILES:
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            known |= {node.name} if isinstance(node, ast.ClassDef) else set()
            known |= {name.asname or name.name for name in node.names} if isinstance(node, ast.ImportFrom) else set()
            known |= (
                {node.attr} if isinstance(node, ast.Attribute) else {node.id} if isinstance(node, ast.Name) else set()
            )
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                known |= {node.value}
                if file.is_relative_to(ROOT / "gmi_drl"):
                    found = re.findall(r"`(?:[a-z_.]+\.)?([A-Z]\w*[a-z]\w*)[\w.()]*`", node.value)
                    named += [(name, f"{file.relative_to(ROOT)}:{node.lineno}") for name in found]
    assert [f"{place} {name}" for name, place in named if name not in known] == []
