import runpy
from pathlib import Path

import pytest

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
