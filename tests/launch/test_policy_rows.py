"""Rows of several policies become one."""

from gmi_drl.launch.policy_rows import combined
from gmi_drl.run.writers.tags import scalars


def row(gmi, **numbers):
    phases = {"sim_s": 1.0, "act_s": 2.0, "learn_s": 3.0, "sync_s": 4.0}
    return {"iteration": 5, **phases, **numbers, "gmis": {gmi: phases}, "dropped": {}}


def test_numbers_are_sums_or_means_and_each_policy_keeps_its_own():
    rows = {
        "a": row("1", env_steps=60, kl=0.1, return_mean=None, world_returns={"agent": 1.0}),
        "b": row("2", env_steps=20, kl=0.3, return_mean=4.0, reward_mean=1.5),
    }
    merged = combined(rows)
    assert (merged["iteration"], merged["env_steps"], merged["kl"], merged["learn_s"]) == (5, 80, 0.2, 3.0)
    assert merged["return_mean"] is None and "reward_mean" not in merged and "dropped" not in merged
    assert merged["world_returns"] == {"agent": 1.0} and list(merged["gmis"]) == ["1", "2"]
    assert merged["policies"] == rows
    tags = scalars(merged)
    assert tags["Policy/b/Reward/mean"] == 1.5 and tags["Policy/a/Loss/kl"] == 0.1 and tags["Loss/kl"] == 0.2
