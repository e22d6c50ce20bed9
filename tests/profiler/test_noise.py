import math

import pytest
from conftest import tiny_config

from gmi_drl.config import default_config
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.profiler import noise, planning
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.noise import noise_here
from gmi_drl.profiler.planning import known_noise
from gmi_drl.profiler.session import Session
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


def test_a_short_training_tells_the_scale_which_is_remembered(monkeypatch):
    monkeypatch.setattr(noise, "NUM_ENV", 64)
    monkeypatch.setattr(noise, "SECONDS", 1.0)
    lines, node, budget = [], this_node(), Budget(math.inf)
    found = noise_here(ANT, tiny_config(), node, budget, tell=lines.append)
    assert found is not None and found.samples > 0
    iterations = found.trained / (64 * tiny_config().learner.horizon)
    assert iterations >= 2 and iterations == int(iterations)
    assert lines == [f"gradient noise scale: {found.described}"]
    monkeypatch.setattr(Session, "start", None)  # nothing is started again
    assert noise_here(ANT, tiny_config(), node, budget) == found


def test_a_scale_that_cannot_be_told_is_no_plan_by_what_is_learnt(monkeypatch):
    monkeypatch.setattr(planning, "noise_here", lambda *args, **more: None)
    with pytest.raises(NoFeasiblePlanError, match=r"drowns in its noise.*--objective steps"):
        known_noise(ANT, tiny_config(), this_node(), Budget(0), fresh=False, tell=print)


def test_a_learner_that_brings_no_such_probe_is_refused():
    config = default_config(ANT, "rsl_rl")
    with pytest.raises(
        UsageError, match=r"nothing measures the gradient noise scale of rsl_rl: take --objective steps"
    ):
        noise_here(ANT, config, this_node(), Budget(0))
