"""Faults over images and memories: which are drawn, and what of a command's end is wrong. No command is started."""

import pytest
import soak_kinds
from soak_kinds import FULL, SERVED, TRAINING, drawn, how_it_ended, prepared


def test_each_kind_meets_each_event_before_one_comes_again():
    faults = drawn(20, seed=3)
    kinds = [(fault.kind, fault.event, fault.restarts) for fault in faults]
    possible = 4 * len(TRAINING) + 1
    assert len(set(kinds[:possible])) == possible and (SERVED, FULL, 0) in kinds
    assert drawn(5, seed=3) == faults[:5]


def test_layouts_are_those_of_gmi_drl(tmp_path):
    from gmi_drl.files import load_yaml
    from gmi_drl.layout.layout import Layout

    place = prepared(tmp_path, {soak_kinds.MEMORIES})
    for name, (task, template, gmis, _) in soak_kinds.LAYOUTS.items():
        layout = load_yaml(Layout, place.folder / f"{name}.yaml")
        assert (layout.task, layout.template, len(layout.gmis)) == (task, template, len(gmis))


class Ended:
    """Stands for a command that has ended."""

    def __init__(self, code, said):
        self.process = type("Process", (), {"returncode": code})
        self.said = lambda: said


@pytest.mark.parametrize(
    ("code", "said", "mistake"),
    [
        (1, "GMI 0 was killed", None),
        (-9, "", "exit code 137"),
        (None, "", "it has not ended"),
        (1, "Traceback", "it printed"),
    ],
)
def test_an_end_that_was_not_promised_is_told(code, said, mistake):
    mistakes = how_it_ended(Ended(code, said), {1})
    assert mistakes == [] if mistake is None else mistake in mistakes[0]
