import math

from gmi_drl.profiler.budget import Budget


def test_a_budget_counts_down_and_never_below_zero():
    budget = Budget(1000)
    assert 0 < budget.left_s <= 1000 and Budget(0).left_s == 0
    assert 0 < budget.part(0.25).left_s <= 250 and Budget(math.inf).part(0.5).left_s == math.inf
