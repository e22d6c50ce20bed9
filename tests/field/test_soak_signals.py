from pathlib import Path

import pytest
import soak_signals
from soak_signals import EVENTS, MOMENTS, Fault, drawn
from soak_signals_runs import SERVING, TRAINING, Place, prepared


def test_each_template_meets_each_moment_and_event_before_one_comes_again():
    faults = drawn(400, seed=3)
    kinds = [(fault.template, fault.moment, fault.event) for fault in faults]
    possible = len(TRAINING) * len(MOMENTS) * len(EVENTS) + len(SERVING) * 3 * len(EVENTS)
    assert len(set(kinds[:possible])) == possible
    assert [fault.number for fault in faults] == list(range(1, 401))


def test_a_seed_draws_the_same_faults_however_many():
    assert drawn(20, seed=3) == drawn(30, seed=3)[:20]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("soak_signals_runs.TRAINING", {"TCG_EX": TRAINING["TCG_EX"]})
        yield prepared(Path(tmp_path_factory.mktemp("soak")))


def test_a_signal_to_all_ends_as_promised_and_the_run_goes_on(place: Place):
    fault = Fault(1, "TCG_EX", soak_signals.RUNNING, soak_signals.TO_ALL, soak_signals.SIGTERM, restarts=0, delay=0.1)
    assert soak_signals.one(fault, place) == []


class Ended:
    """Stands for a command that has ended."""

    def __init__(self, code, said):
        self.process = type("Process", (), {"returncode": code})
        self.said = lambda: said


@pytest.mark.parametrize(
    ("code", "said", "mistake"),
    [
        (143, "Stopped after iteration 3, saved x", None),
        (-15, "saved", None),
        (143, "Stopped", "no checkpoint was told"),
        (1, "GMI 0 was killed by SIGTERM", "exit code 1, not [143]"),
        (143, "saved\ngmi-drl: unexpected KeyError", "it printed"),
        (None, "", "it has not ended"),
    ],
)
def test_an_end_that_was_not_promised_is_told(code, said, mistake):
    fault = Fault(2, "TCG_EX", soak_signals.RUNNING, soak_signals.TO_ALL, soak_signals.SIGTERM, restarts=0, delay=0.5)
    mistakes = soak_signals.how_it_ended(fault, Ended(code, said), has_begun=True, goes_on=False)
    assert mistakes == [] if mistake is None else mistake in mistakes[0]
