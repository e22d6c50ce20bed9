"""A simulator that compiles in its first step on a machine, for longer than the budget, is planned as others are."""

from pathlib import Path

import pytest
from conftest import tiny_config

from gmi_drl.config.learners import PPOConfig
from gmi_drl.gmi.inventory import this_node
from gmi_drl.launch.task_info import task_spec
from gmi_drl.profiler import confirm, measured_plan, points
from gmi_drl.profiler.budget import COMPILING
from gmi_drl.profiler.measured_plan import plan_here
from gmi_drl.scheduler import grid_of

COMPILE_S, BUDGET_S, BEST, HORIZON = 32, 60, 64, 2  # half of the budget is for exploring
SIMULATOR = """
import time
from dataclasses import replace
from pathlib import Path
import gmi_drl.tasks

COMPILED = Path(__file__).with_name("compiled")  # the cache of kernels
STEPPED = Path(__file__).with_name("stepped")

class Lazy:
    def __init__(self, compile_s, sizes):
        self._task = gmi_drl.tasks.make("ball_balance", **sizes)
        self._compile_s = compile_s
        self.spec = replace(self._task.spec, name=f"lazy:{compile_s}")

    def __getattr__(self, name):
        return getattr(self._task, name)

    def step(self, action):
        if not COMPILED.exists():
            time.sleep(float(self._compile_s))
            COMPILED.touch()
        with STEPPED.open("a") as file:
            file.write(f"{self._task.num_env} ")
        time.sleep(0.002 if self._task.num_env <= %d else 0.3)  # more do not pay
        return self._task.step(action)

def make(rest, **sizes):
    return Lazy(rest, sizes)
"""


@pytest.fixture
def site(install, monkeypatch) -> Path:
    for module in (points, measured_plan, confirm):
        monkeypatch.setattr(module, "MEASURE_S", 0.05)
    return install({"gmi_drl.tasks": "lazy = toy_lazy:make"}, {"toy_lazy": SIMULATOR % BEST})


def test_compiling_takes_nothing_from_the_budget_nor_from_a_point(site):
    task, lines = task_spec(f"lazy:{COMPILE_S}"), []
    assert not (site / "compiled").exists(), "asking for the sizes must not have done it"
    grid = grid_of({1: [2**power for power in range(3, 9)]})
    config = tiny_config(learner=PPOConfig(horizon=HORIZON, epochs=1, minibatches=1))
    plan = plan_here(task, config, this_node(), grid, seconds=BUDGET_S, tell=lines.append, objective="steps")
    assert lines[0] == COMPILING and lines.count(COMPILING) == 1
    assert len(plan.candidates) > 1, lines  # one is always measured
    first = min((candidate.point for candidate in plan.candidates), key=lambda point: point.num_env)
    assert first.num_env == 8 and first.steps_per_second > 5 * 8 * HORIZON / COMPILE_S, "no iteration has compiled"
    assert plan.candidates[0].confirmed and (site / "stepped").read_text().startswith("1 8 ")
