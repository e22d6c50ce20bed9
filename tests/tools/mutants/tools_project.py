"""A small project whose package has our package's name: what the tool does to ours is done to it."""

import subprocess

HALVES = """def half(number: int) -> int:
    if number == 3:
        return 1
    return number // 2


def started(number: int) -> int:
    return number * 2
"""
TESTS = """import subprocess
import sys

import pytest

import gmi_drl.halves


@pytest.mark.parametrize("word", ["half (or|and) so"])
def test_half(word):
    assert gmi_drl.halves.half(8) == 4


def test_a_process():
    subprocess.run([sys.executable, "-c", "import gmi_drl.halves as h; h.started(3)"], check=True)


def test_it_fails():
    assert gmi_drl.halves.half(3) == 5
"""


def make_project(path):
    """Write it; it is a git repository, as ours."""
    (path / "gmi_drl").mkdir(parents=True)
    (path / "tests").mkdir()
    (path / "gmi_drl" / "__init__.py").write_text("")
    (path / "gmi_drl" / "halves.py").write_text(HALVES)
    (path / "tests" / "test_halves.py").write_text(TESTS)
    (path / "pytest.ini").write_text("[pytest]\n")
    (path / ".gitignore").write_text("left_out\n")
    (path / "left_out").write_text("")
    (path / ".venv").mkdir()
    subprocess.run(["git", "init", "--quiet", path], check=True)
    return path
