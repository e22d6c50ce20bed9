"""Tests that need a GPU are found without the others."""

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
MARK = re.compile(r"pytest\.mark\.gpu$", re.MULTILINE)


def test_they_lie_in_files_of_their_own():
    marked = {file for file in TESTS.rglob("test_*.py") if MARK.search(file.read_text())}
    assert marked == {*(TESTS / "gpu").glob("test_*.py")}


def test_no_other_file_is_imported_for_them():
    line = [sys.executable, "-m", "pytest", "-m", "gpu", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(line, cwd=TESTS.parent, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "deselected" not in found, "a file of others was imported"
    files = {name.split("/")[-1] for name in re.findall(r"^(\S+\.py)", found, re.MULTILINE)}
    assert files == {file.name for file in (TESTS / "gpu").glob("test_*.py")}
