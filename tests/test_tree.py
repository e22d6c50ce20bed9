"""What CONTRIBUTING says of every file is true of every file."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("gmi_drl", "tests", "tools", "benchmarks", "examples")
FILES = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
OF_OTHERS = {"EnvironmentFile", "MujocoEnv", "ParallelEnv", "Pong", "PossiblePlacements", "CUipcMemHandle"}
"""Names that docstrings take from systemd, Gymnasium, PettingZoo, Atari, NVML and CUDA."""
LEAST_DEADLINE_S = 30
"""What a bound of a test must give a busy machine; less is a bound on speed."""


@cache
def found():
    """Of all files: long functions, names that are known, and classes that docstrings name with their places."""
    long, known, named = [], set(OF_OTHERS), []
    for file in FILES:
        place = file.relative_to(ROOT)
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if node.end_lineno - node.lineno + 1 >= 80:
                    long.append(f"{place}:{node.lineno} {node.name}")
                case ast.ClassDef():
                    known.add(node.name)
                case ast.ImportFrom():
                    known |= {name.asname or name.name for name in node.names}
                case ast.Attribute():
                    known.add(node.attr)
                case ast.Name():
                    known.add(node.id)
                case ast.Constant(value=str(text)):
                    known.add(text)
                    if place.parts[0] == "gmi_drl":
                        classes = re.findall(r"`(?:[a-z_.]+\.)?([A-Z]\w*[a-z]\w*)[\w.()]*`", text)
                        named += [(name, f"{place}:{node.lineno}") for name in classes]
    return long, known, named


def test_no_file_is_longer_than_350_lines():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in FILES}
    assert {name.split("/")[0] for name in lengths} == set(PARTS)
    assert {name: lines for name, lines in lengths.items() if lines > 350} == {}


def test_no_two_files_of_tests_have_one_name():
    names = Counter(file.stem for file in (ROOT / "tests").rglob("*.py") if file.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_are_shorter_than_80_lines():
    long, _, _ = found()
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
    _, known, named = found()
    assert [f"{place} {name}" for name, place in named if name not in known] == []
