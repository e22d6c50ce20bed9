"""Rows of several policies become one."""

from types import SimpleNamespace

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.launch.policy_rows import PolicyRows, combined
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.writers.tags import scalars


def row(gmi, **numbers):
    phases = {"sim_s": 1.0, "act_s": 2.0, "learn_s": 3.0, "sync_s": 4.0}
    return {"iteration": 5, **phases, **numbers, "gmis": {gmi: phases}, "dropped": {}}


def test_numbers_are_sums_or_means_and_each_policy_keeps_its_own():
    rows = {
        "a": row("1", env_steps=60, kl=0.1, lag_max=1.0, return_mean=None, world_returns={"agent": 1.0}),
        "b": row("2", env_steps=20, kl=0.3, lag_max=0.0, return_mean=4.0, reward_mean=1.5),
    }
    merged = combined(rows)
    assert (merged["iteration"], merged["env_steps"], merged["kl"], merged["learn_s"]) == (5, 80, 0.2, 3.0)
    assert (
        merged["lag_max"] == 1
        and merged["return_mean"] is None
        and "reward_mean" not in merged
        and "dropped" not in merged
    )
    assert merged["world_returns"] == {"agent": 1.0} and list(merged["gmis"]) == ["1", "2"]
    assert merged["policies"] == rows
    tags = scalars(merged)
    assert tags["Policy/b/Reward/mean"] == 1.5 and tags["Policy/a/Loss/kl"] == 0.1 and tags["Loss/kl"] == 0.2


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_whoever_comes_first_the_row_is_the_same(order):
    """The first policy tells the terms of the reward for all."""
    policies = [policy_of("a", 1), policy_of("b", 2)]
    told = {1: {"reward_terms": {"speed": 1.0}}, 2: {}}
    merger, merged = PolicyRows(policies, lambda since_s, until_s: {}), []
    for gmi in order:
        numbers = {"env_steps": 8, "episodes": 0.0, "reward_mean": float(gmi), "clock_s": 0.0}
        phases = {"sim_s": 1.0, "act_s": 2.0, "learn_s": 3.0, "sync_s": 4.0, "wait_s": 0.0}
        merged += merger.add(gmi, {"iteration": 1, "gmi": gmi, **phases, **numbers, **told[gmi]})
    (whole,) = merged
    assert list(whole["policies"]) == ["a", "b"] and list(whole["gmis"]) == ["1", "2"]
    assert whole["reward_terms"] == {"speed": 1.0} and whole["reward_mean"] == 1.5


def policy_of(name, trainer):
    gmis = tuple(GMI(id=number, roles=("trainer",), cores=(0,)) for number in range(3))
    layout = Layout(
        devices=(Device(kind="cpu", gmis=gmis),), groups={"trainers": GmiGroup(members=(trainer,))}, share_cores=True
    )
    return SimpleNamespace(name=name, layout=layout, config=SimpleNamespace(learner=PPOConfig()))
