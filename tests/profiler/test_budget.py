import math
import time

import pytest

from gmi_drl.config import RunConfig
from gmi_drl.hardware import Cpu, Gpus, Node
from gmi_drl.physics import usual_physics
from gmi_drl.profiler import budget as budget_module
from gmi_drl.profiler.budget import COMPILING, Budget, budget_of
from gmi_drl.workload import TASK_SPECS

ON_CORES = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
ON_A_GPU = ON_CORES.model_copy(update={"gpus": Gpus(model="X", count=1)})


def test_a_budget_counts_down_and_never_below_zero():
    budget = Budget(1000)
    assert 0 < budget.left_s <= 1000 and Budget(0).left_s == 0
    assert 0 < budget.part(0.25).left_s <= 250 and Budget(math.inf).part(0.5).left_s == math.inf


def test_a_first_start_is_spared_and_no_other(monkeypatch):
    now = 100.0
    monkeypatch.setattr(budget_module.time, "monotonic", lambda: now)
    told = []
    budget = Budget(60, lambda: told.append(now))
    half = budget.part(0.5)
    assert budget.spares_next_start and not told
    with pytest.raises(ValueError, match="it failed"), half.starting():
        now += 1000
        assert (budget.left_s, half.left_s, half.part(0.5).left_s) == (60, 30, 15)
        raise ValueError("it failed")
    assert (budget.left_s, half.left_s) == (60, 30) and not budget.spares_next_start
    quarter = half.part(0.5)
    with budget.starting():
        now += 10
    assert (budget.left_s, half.left_s, quarter.left_s) == (50, 20, 5) and told == [100.0]


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
        with budget.starting():
            time.sleep(0)
    assert told == ([COMPILING] if may else [])
