"""In which iterations the policies of a run stop and save."""

import pytest

from gmi_drl.launch import leaders as module
from gmi_drl.launch.leaders import AHEAD, Leaders
from gmi_drl.roles.launcher.protocol import Save, Stop


@pytest.fixture
def now(monkeypatch):
    """The time in seconds, which stands still."""
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])
    return seconds


def test_policies_stop_and_save_in_the_same_iteration_that_none_has_done(now):
    said = []
    leaders = Leaders((2, 4), lambda *word: said.append(word), begun=7, every_s=60.0)
    leaders.save_if_late()
    now[0] = 60.0
    leaders.save_if_late()
    leaders.save_if_late()
    assert said == [(2, Save(7 + AHEAD)), (4, Save(7 + AHEAD))]
    for iteration in (9, 8):  # of the policies
        leaders.note({"iteration": iteration})
    leaders.stop()
    assert said[2:] == [(2, Stop(9 + AHEAD)), (4, Stop(9 + AHEAD))]


@pytest.mark.parametrize(("ids", "every_s"), [((0,), 60.0), ((0, 1), None)], ids=["one policy", "no time is set"])
def test_what_is_not_asked_for(now, ids, every_s):
    """A single policy stops at once, and knows itself how much time has passed."""
    said = []
    leaders = Leaders(ids, lambda *word: said.append(word), begun=7, every_s=every_s)
    now[0] = 1000.0
    leaders.save_if_late()
    assert said == []
    leaders.stop()
    assert said == [(gmi_id, Stop(0 if len(ids) == 1 else 7 + AHEAD)) for gmi_id in ids]
