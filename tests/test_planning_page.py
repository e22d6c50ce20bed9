"""docs/concepts/plans.md tells what the code does: its numbers, and what the commands print."""

import re
import shutil
from pathlib import Path

import pytest
from pages import gmi_drl, lines, transcripts

from gmi_drl.profiler.measured_plan import CONFIRMED
from gmi_drl.scheduler.explain.paper_terms import KEPT
from gmi_drl.scheduler.exploration import (
    GPU_NUM_ENVS,
    IN_A_ROW,
    MOST_GMIS,
    NUM_ENVS,
    SATURATION_THRESHOLD,
    STANDARD_ERRORS,
)
from gmi_drl.scheduler.memory import SPARE

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "concepts" / "plans.md").read_text()


def test_the_numbers_of_the_page_are_those_of_the_code():
    assert IN_A_ROW == 2 and "*saturated* two times in a row" in PAGE
    for told in (
        f"At most {MOST_GMIS} GMIs per device",
        f"environments double from {NUM_ENVS[0]} to {NUM_ENVS[-1]} on cores",
        f"on a GPU they are {min(GPU_NUM_ENVS)} to {max(GPU_NUM_ENVS)}",
        f"{GPU_NUM_ENVS[0]} first",
        f"Below alpha = {SATURATION_THRESHOLD}",
        f"taken {STANDARD_ERRORS:.0f} standard errors slower",
        f"The best {CONFIRMED} candidates",
        f"must leave {SPARE:.0%}".replace("%", " %") + " of the GPU free",
    ):
        assert told in PAGE, told


def test_the_papers_model_is_filled_in_as_the_page_shows(tmp_path):
    for folder in ("nodes", "planning"):
        shutil.copytree(ROOT / "examples" / folder, tmp_path / "examples" / folder)
    example = r"`gmi-drl (plan [^`]*shares.json[^`]*)`[^`]*```\n(.*?)```"
    command, shown = re.search(example, PAGE, re.DOTALL).groups()
    run = gmi_drl(command.split(), tmp_path)
    assert run.returncode == 0 and shown in run.stdout, run.stdout
    numbers = (
        f"keeps {KEPT:.0%}",
        "0.163 and 0.466",
        "2.58 times",
        "5.46 times",
    )  # tests/templates/test_paper_model.py
    assert numbers[0] in shown and all(number in PAGE for number in numbers[1:])


@pytest.mark.parametrize(("arguments", "shown"), transcripts(PAGE), ids=["what-if"])
def test_the_page_of_planning_shows_what_is_printed(arguments, shown, tmp_path):
    shutil.copytree(ROOT / "examples" / "plans", tmp_path / "examples" / "plans")
    run = gmi_drl(arguments, tmp_path)
    assert run.returncode == 0 and lines(run.stdout) == lines(shown), run.stderr
