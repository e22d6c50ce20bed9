import subprocess
import sys

import pytest
from tools_project import make_project

from tools.mutants.trial import failed_test

PROGRAM = """
import sys
from pathlib import Path
from tools.mutants.operators import mutants_of
from tools.mutants.trial import copy_checkout, run_tests, try_mutant
root, copy = Path(sys.argv[1]), Path(sys.argv[2])
copy_checkout(root, copy)
tests = ["tests/test_halves.py::test_half[half (or|and) so]"]
print("whole", run_tests(copy, tests, 60, copy.parent / "log"))
import os
os.chdir(root)
for mutant in mutants_of(Path("gmi_drl/halves.py")):
    print(mutant.original, "|", try_mutant(mutant, copy, tests, 60, copy.parent / "log"))
"""


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def run(program, *arguments):
    line = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()


def test_mutants_are_killed_where_a_test_looks_and_survive_where_none_does(project, tmp_path):
    copy = tmp_path / "copy"
    whole, *others = run(PROGRAM, project, copy)
    assert whole == "whole 0"
    assert dict(row.split(" | ") for row in others) == {
        "number == 3": "1",
        "1": "0",
        "number // 2": "1",
        "2": "0",  # that of `number * 2`, the last one
        "number * 2": "0",
    }
    assert (copy / "gmi_drl" / "halves.py").read_text() == (project / "gmi_drl" / "halves.py").read_text()
    assert not (copy / "left_out").exists() and (copy / ".venv").is_symlink()


def test_a_test_that_hangs_is_ended_with_all_that_it_started(project, tmp_path):
    (project / "tests" / "test_hangs.py").write_text(
        "import subprocess, time\n"
        "def test_hangs():\n"
        "    subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    time.sleep(600)\n"
    )
    program = (
        "import psutil, sys; from pathlib import Path; from tools.mutants.trial import HUNG, run_tests\n"
        "print(run_tests(Path(sys.argv[1]), ['tests/test_hangs.py'], 5, Path(sys.argv[2])) == HUNG)\n"
        "print(psutil.Process().children(recursive=True))\n"
    )
    assert run(program, project, tmp_path / "log") == ["True", "[]"]


def test_an_orphan_that_ends_is_seen_to_end(project, tmp_path):
    (project / "tests" / "test_orphan.py").write_text(
        "import os, subprocess, psutil\n"
        "def test_orphan():\n"
        "    its_input, ours = os.pipe()\n"
        "    line = ['sh', '-c', 'exec 3<&0; cat <&3 > /dev/null 2>&1 & echo $!']\n"
        "    orphan = psutil.Process(int(subprocess.run(line, stdin=its_input, capture_output=True).stdout))\n"
        "    os.close(ours)  # only now does it end\n"
        "    assert psutil.wait_procs([orphan], timeout=60)[0]\n"
    )
    program = (
        "import sys; from pathlib import Path; from tools.mutants.trial import run_tests\n"
        "print(run_tests(Path(sys.argv[1]), ['tests/test_orphan.py'], 100, Path(sys.argv[2])))\n"
    )
    assert run(program, project, tmp_path / "log") == ["0"]


def test_the_test_that_failed_is_told_by_its_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("....\nFAILED tests/a.py::b[c - d] - assert 1 == 2\nFAILED tests/a.py::z\n")
    assert failed_test(log) in ("tests/a.py::b[c - d]", "tests/a.py::b[c")
    log.write_text("ERROR tests/a.py - ImportError: no\n")
    assert failed_test(log) == "tests/a.py"
    log.write_text("1 passed\n")
    assert failed_test(log) == ""
