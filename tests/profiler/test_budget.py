import math

import pytest

from gmi_drl.config import physics
from gmi_drl.config.physics import usual_physics
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.profiler import budget as budget_module
from gmi_drl.profiler.budget import COMPILING, Budget, Pace, budget_of
from gmi_drl.profiler.session import Measured
from gmi_drl.workload import TASK_SPECS

ON_CORES = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
ON_A_GPU = ON_CORES.model_copy(update={"gpus": Gpus(model="X", count=1)})


def test_a_budget_counts_down_and_never_below_zero():
    budget = Budget(1000)
    assert 0 < budget.left_s <= 1000 and Budget(0).left_s == 0
    assert 0 < budget.part(0.25).left_s <= 250 and Budget(math.inf).part(0.5).left_s == math.inf


class Starting:
    """A session that takes its time to start."""

    def __init__(self, took_s, compiled_s, works=True):
        self.took_s, self.compiled_s, self.works = took_s, compiled_s, works

    def start(self, claim):
        Clock.now += self.took_s
        if not self.works:
            raise GmiError("it failed")


class Clock:
    now = 100.0

    @staticmethod
    def monotonic():
        return Clock.now


def test_what_a_first_session_compiles_is_spared_and_no_more(monkeypatch):
    monkeypatch.setattr(budget_module, "time", Clock)
    told = []
    budget = Budget(60, lambda: told.append(Clock.now))
    half = budget.part(0.5)
    with pytest.raises(GmiError, match="it failed"):
        half.start(Starting(4, 2, works=False), None)
    assert (budget.left_s, half.left_s) == (56, 26), "it may be another reason"
    assert half.start(Starting(1006, 1000), None) == 6
    assert (budget.left_s, half.left_s) == (50, 20)
    quarter = half.part(0.5)
    assert quarter.start(Starting(5, 1), None) == 5
    assert (budget.left_s, half.left_s, quarter.left_s) == (45, 15, 5) and told == [100.0, 104.0]


@pytest.mark.parametrize(("node", "has_warp"), [(ON_CORES, False), (ON_A_GPU, False), (ON_A_GPU, True)])
def test_that_cores_simulate_beside_a_gpu_is_told(node, has_warp, monkeypatch):
    monkeypatch.setattr(physics, "has_warp", lambda: has_warp)
    told = []
    budget_of(60, TASK_SPECS["ant"], RunConfig(), node, told.append)
    assert [line.partition(":")[0] for line in told] == (
        ["MuJoCo Warp is not installed, so CPU cores simulate"] if node is ON_A_GPU and not has_warp else []
    )


@pytest.mark.parametrize(
    ("task", "physics", "node", "may"),
    [
        ("ant", None, ON_CORES, False),
        ("ant", "warp", ON_CORES, True),
        ("ant", None, ON_A_GPU, usual_physics(on_gpu=True) == "warp"),
        ("ant", "native", ON_A_GPU, False),
        ("mjlab:Ant", None, ON_CORES, True),
    ],
)
def test_that_kernels_may_be_compiled_is_told_where_they_may(task, physics, node, may):
    told = []
    spec = TASK_SPECS["ant"].__class__(**vars(TASK_SPECS["ant"]) | {"name": task})
    budget = budget_of(60, spec, RunConfig(physics=physics), node, told.append)
    assert not told
    for _ in range(2):
        budget.start(Starting(0, 0), None)
    assert told == ([COMPILING] if may else [])


def measured(iterations, iteration_s):
    return Measured(128, iterations, iteration_s, 1.0, 0.0, 0, 0, {})


def test_a_point_tells_what_the_next_takes_beside_its_iterations():
    pace = Pace(1.5, 12, beside_s=2.0)
    assert pace.expected_s() == 2.0 + 2 * 1.5
    pace.has_run(5.0, measured(iterations=3, iteration_s=1.0))
    assert pace.beside_s == 1.0
    assert pace.expected_s(1.0) == 1.0 + 1.5 + 1.0 and pace.expected_s(4.0) == 1.0 + 8.0
    pace.has_run(0.5, measured(iterations=3, iteration_s=1.0))
    assert pace.beside_s == 0.0


@pytest.mark.parametrize(
    ("left_s", "walks", "useful"), [(30, 2, 2), (30, 10, 2), (150, 10, 10), (math.inf, 3, 3), (11, 4, 1), (0, 4, 1)]
)
def test_as_many_walks_as_can_be_useful_share_what_is_left(left_s, walks, useful):
    assert Pace(1.5, 12).share(left_s, walks) == 1 / useful
