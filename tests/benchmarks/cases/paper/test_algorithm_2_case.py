from types import SimpleNamespace

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.cases.paper import algorithm_2
from gmi_drl.benchmarks.result import SAME
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut

SIDES = [algorithm_2.PLAN, algorithm_2.ALGORITHM_2, algorithm_2.BEST, algorithm_2.ONE_GMI]
SIDES += [f"random choice {number}" for number in (1, 2, 3)]
TINY = algorithm_2.Workload(hidden=(16,))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(algorithm_2, "SECONDS", 0.05)
    monkeypatch.setattr(algorithm_2, "PLAN_S", 600.0)  # a busy machine has the time, too
    monkeypatch.setattr("gmi_drl.profiler.confirm.MOST_ROUNDS", 1)
    for module in ("points", "confirm", "measured_plan"):
        monkeypatch.setattr(f"gmi_drl.profiler.{module}.MEASURE_S", 0.05)


@two_cores
def test_all_choices_come_from_the_grid_and_run():
    result = run_case(algorithm_2.case("tiny", "A tiny network", TINY), repeats=1, quick=True)
    shapes = {name: samples[0].details for name, samples in result.samples.items()}
    assert list(shapes) == SIDES
    places = {name: (shape["gmis"], shape["num_env"]) for name, shape in shapes.items()}
    alone = {(1, gmis * 32) for gmis in range(2, 11)}  # beside GMIs of 32 a plan runs one with as many environments
    assert set(places.values()) <= {(gmis, num) for gmis in range(1, 11) for num in algorithm_2.QUICK_NUM_ENVS} | alone
    ours, *others = places
    assert all((result.against(name) == SAME) == (places[name] == places[ours]) for name in others)


@two_cores
def test_what_both_choose_runs_once_as_one_side(monkeypatch):
    for chooser in ("planned", "choice"):
        monkeypatch.setattr(algorithm_2, chooser, lambda *_: Cut(1, 16))
    monkeypatch.setattr(algorithm_2, "exhaustive", lambda *_: [Cut(2, 16), Cut(1, 16)])
    result = run_case(algorithm_2.case("tiny", "A tiny network", TINY), repeats=1, quick=True)
    assert [result.against(name) for name in ("gmi-drl plan", "Algorithm 2")] == ["", SAME]
    assert result.samples["Algorithm 2"] == result.samples["gmi-drl plan"]
    assert algorithm_2.BEST in result.ratios and algorithm_2.ONE_GMI not in result.ratios


class Measurer:
    """A session in which an iteration with 32 environments lasts longer than all sweeps of the others."""

    def __init__(self):
        self.asked = []

    def measure(self, num_env, seconds, *, deadline_s):
        assert deadline_s == algorithm_2.DEADLINE_S
        self.asked.append(num_env)
        return SimpleNamespace(steps_per_second=num_env, iteration_s=2 * algorithm_2.SECONDS * (num_env == 32))


def test_iterations_of_minutes_are_measured_once():
    session = Measurer()
    best, worst = algorithm_2.exhaustive({("process", 1): session}, [Cut(1, 16), Cut(1, 32)])
    assert (best, worst) == (Cut(1, 32), Cut(1, 16)) and session.asked == [16, 32] + [16] * (algorithm_2.SWEEPS - 1)


def test_what_is_drawn_at_random_is_always_the_same_and_from_the_grid():
    grid = [Cut(gmis, num_env) for gmis in (1, 2, 4) for num_env in (128, 256, 512)]
    cuts = algorithm_2.random_cuts(grid)
    assert (
        cuts == algorithm_2.random_cuts(grid)
        and len(set(cuts)) == algorithm_2.RANDOM_CHOICES
        and set(cuts) <= set(grid)
    )


@two_cores
def test_serving_is_measured_like_training(monkeypatch):
    monkeypatch.setattr(algorithm_2, "choice", lambda *_: Cut(1, 16))
    monkeypatch.setattr(algorithm_2, "exhaustive", lambda *_: [Cut(2, 16), Cut(1, 16)])
    serving = algorithm_2.Workload("humanoid", "serving", hidden=(16,))
    result = run_case(algorithm_2.case("tiny", "Serving", serving), repeats=1, quick=True)
    assert all(sample.value > 0 for column in result.samples.values() for sample in column)
    assert all(column[0].details["learn_s"] == 0 for column in result.samples.values())


def test_the_grid_of_the_cores_ends_where_an_iteration_lasts_as_long_as_a_round():
    grid = algorithm_2.Workload().grid(quick=False)
    assert max(cut.num_env for cut in grid) == algorithm_2.MOST_NUM_ENV and {cut.gmis_per_gpu for cut in grid} >= {1}


def test_the_grid_of_a_gpu_has_a_core_for_each_gmi():
    node = Node(name="h200s", gpus=Gpus(model="NVIDIA H200", count=1), cpu=Cpu(cores=6, memory_gib=128))
    grid = algorithm_2.gpu_grid(node, "process")
    assert {cut.gmis_per_gpu for cut in grid} == {1, 2, 4} and {cut.num_env for cut in grid} == {1024, 4096, 16384}


@two_cores
def test_the_grid_of_a_gpu_is_measured_like_that_of_cores(monkeypatch):
    monkeypatch.setattr(algorithm_2, "planned", lambda *_: Cut(1, 16))
    monkeypatch.setattr(algorithm_2, "exhaustive", lambda *_: [Cut(2, 16), Cut(1, 16)])
    monkeypatch.setattr(algorithm_2.requirements, "warp_on_gpu", lambda: None)
    result = run_case(algorithm_2.gpu_case("tiny", "process", lambda: None), repeats=1, quick=True)
    assert list(result.samples) == SIDES
