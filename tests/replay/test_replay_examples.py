import re
import runpy
import sys
from pathlib import Path

import pytest
from conftest import environment

from tests.fork_server import SERVER

EXAMPLES = Path(__file__).parents[2] / "examples" / "replay"


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ("n_step_table", "7 items of 3 steps, from 10 steps stored once\n"),
        ("n_step_uniform", "50 transitions of 3 steps, 32 returns of a batch\n"),
        ("overlapping", "20 items of 2 steps, 19 of 3, from 21 steps\n"),
        ("ring", "188 windows of up to 3 steps in 200 steps\n"),
    ],
)
def test_examples_of_replay_run_and_check_themselves(example, told, capsys):
    runpy.run_path(str(EXAMPLES / f"{example}.py"))
    assert capsys.readouterr().out == told


def test_two_actors_and_a_learner_of_distributed_sac_learn():
    command = [sys.executable, EXAMPLES.parent / "distributed_sac" / "main.py", "--updates", "150"]
    run = SERVER.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and run.stdout.startswith("2 actors, "), run.stderr
    before, after = map(float, re.findall(r"0\.\d{3}", run.stdout))
    assert after < before
