import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment, two_cores

from tests.fork_server import SERVER

EXAMPLES = Path(__file__).parent.parent / "examples"
PLAYGROUND = EXAMPLES.parent / ".playground"


@two_cores
@pytest.mark.parametrize(
    ("example", "expected"),
    [("first_role.py", "GMI 1: {'own_cores': 1"), ("stencil.py", "888.141 on two GMIs, 888.141 in one piece")],
)
def test_examples_run(example, expected, tmp_path):
    command = [sys.executable, EXAMPLES / example]
    run = SERVER.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and expected in run.stdout, run.stderr


def test_the_six_tasks_are_drawn(tmp_path, opengl):
    command = [sys.executable, EXAMPLES / "six_tasks.py", tmp_path / "tasks.png"]
    subprocess.run(command, env=environment(), check=True, timeout=120)
    assert (tmp_path / "tasks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not (PLAYGROUND / "ready").is_file(), reason="MuJoCo Playground takes 2.4 GB: make playground")
def test_mujoco_playground_comes_in_by_the_entry_point(tmp_path):
    command = [PLAYGROUND / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider", EXAMPLES / "gmi_drl_playground"]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=1800, check=False)
    assert run.returncode == 0, run.stdout
