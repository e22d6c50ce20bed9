"""Figure 7 on one device: the search, and its sides on cores."""

from types import SimpleNamespace

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.common import num_env_sweep, shared_gpu
from gmi_drl.benchmarks.cases.paper import figure_7
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import GmiError

SPEEDS = {(1, 8): 10.0, (1, 16): 12.0, (1, 32): 11.0, (2, 4): 14.0, (2, 8): 9.0}


class Sessions:
    """Measures from `SPEEDS`; what is not there has no room."""

    def __init__(self, layouts, config):
        (self.size,) = layouts

    def __enter__(self):
        return {self.size: self}

    def __exit__(self, *error):
        pass

    def measure(self, num_env, seconds):
        if (self.size, num_env) not in SPEEDS:
            raise GmiError(f"no room for {num_env}\n  more")
        used = {"gpu0": {"sm_util": 30.0 * self.size}}
        return SimpleNamespace(num_env=num_env, steps_per_second=SPEEDS[self.size, num_env], devices=used)


def test_each_number_of_gmis_has_its_best_number_of_environments(monkeypatch):
    monkeypatch.setattr(num_env_sweep, "of_layouts", Sessions)
    found = num_env_sweep.sweep(lambda size: None, None, (1, 2, 4), (8, 16, 32), 1.0, 60.0)
    assert {size: best.num_env for size, best in found.best.items()} == {1: 16, 2: 4}
    assert found.left_out == {"4 GMIs": "no room for 2"}
    assert found.fastest((1, 2)) == 2 and found.fastest((1,)) == 1 and found.fastest((4,)) is None
    assert found.curves() == {"GMIs": [1.0, 2.0], "SM activity, %": [30.0, 60.0], "steps/s": [12.0, 14.0]}


def test_the_first_number_of_gmis_is_always_measured(monkeypatch):
    monkeypatch.setattr(num_env_sweep, "of_layouts", Sessions)
    found = num_env_sweep.sweep(lambda size: None, None, (1, 2), (8,), 1.0, -1.0)
    assert list(found.best) == [1] and "not measured" in found.left_out["2 GMIs"]


def test_all_six_tasks_are_trained_and_served():
    names = {case.name for case in figure_7.CASES}
    assert len(names) == 12 and {"figure_7_training_ant", "figure_7_serving_shadow_hand"} <= names


@two_cores
@pytest.mark.parametrize("purpose", ["training", "serving"])
def test_the_best_run_against_one_process(monkeypatch, purpose):
    monkeypatch.setattr(figure_7, "SIZES", (1, 2))
    monkeypatch.setattr(figure_7, "QUICK_SEARCH_S", 600.0)
    monkeypatch.setattr(shared_gpu.requirements, "warp_on_gpu", lambda: None)
    monkeypatch.setattr(shared_gpu.requirements, "mps", lambda: "none here")
    result = run_case(figure_7.case("ant", purpose), repeats=1, quick=True)
    assert list(result.samples) == [figure_7.EXCLUSIVE, "plain sharing at its best"]
    (alone,), (together,) = result.samples.values()
    assert (alone.details["gmis"], together.details["gmis"]) == (1, 2)
    assert together.details[CURVES]["GMIs"] == [1.0, 2.0] and CURVES not in alone.details
    assert (together.details["learn_s"] > 0) is (purpose == "training")
