from pathlib import Path
from typing import get_args

from gmi_drl.run.phases import PHASE_NAMES, PHASES, PhaseName
from gmi_drl.scheduler.profile import Phases

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "training.md").read_text()


def test_the_table_has_every_name_once_and_a_profile_has_the_same():
    assert PHASE_NAMES == get_args(PhaseName) == tuple(Phases.model_fields)


def test_the_page_of_training_calls_them_alike():
    assert all(f"| {phase.symbol}, {phase.label} |" in PAGE for phase in PHASES if phase.symbol)
