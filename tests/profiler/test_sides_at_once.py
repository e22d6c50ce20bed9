"""What a run of both sides at once is taken for, and when there is time for one."""

from types import SimpleNamespace

import pytest
from conftest import two_cores

from gmi_drl.config import RunConfig
from gmi_drl.cut import Cut
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.learners import A3CConfig
from gmi_drl.profiler.both_sides import TOGETHER_S, _ran, _together
from gmi_drl.scheduler.division import Division
from gmi_drl.workload import TASK_SPECS


def test_what_ran_at_once_could_run(monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.both_sides.division_of", lambda point, *numbers: point)
    way = Division(Cut(2, 64), 1, 1, 1e6, 1e6)
    rows = [{"began_s": 0.0, "ended_s": 3.0, "iteration_s": iteration_s} for iteration_s in (0.1, 0.4)]
    point = _ran(way, rows, horizon=10, sums=lambda cut, trainers: 0.0)
    assert point.runnable and point.steps_per_second == pytest.approx(6400) and point.cut == way.cut


@two_cores
@pytest.mark.parametrize(("left_s", "tries"), [(TOGETHER_S, True), (TOGETHER_S - 0.1, False)])
def test_both_sides_run_at_once_if_there_is_just_time_for_it(left_s, tries):
    def start(session, claim):
        raise GmiError("it does not start\nfor a reason")

    node, told = this_node().model_copy(update={"gpus": None}), []
    budget = SimpleNamespace(left_s=left_s, start=start)
    way, config = Division(Cut(2, 4), 1, 1, 1e6, 1e6), RunConfig(learner=A3CConfig())
    assert _together(way, TASK_SPECS["ant"], config, node, lambda cut, trainers: 0.0, budget, told.append) is None
    assert told == ["both sides at once did not run: it does not start"] * tries
