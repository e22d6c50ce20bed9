"""The bound of cores by what one alone does: its parts, and what they add up to."""

import pytest

from gmi_drl.benchmarks.cases.common.core_bound import core_bound
from gmi_drl.benchmarks.cases.peers.ppo_ant_v5 import our_layout
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig


@pytest.mark.starts_gmis
def test_cores_are_divided_by_the_parts_of_a_step_on_one():
    layout = our_layout("ball_balance", 4, 1)
    config = RunConfig(learner=PPOConfig(hidden=(8,), horizon=8, minibatches=1, epochs=1))
    one, four = (core_bound(layout, config, cores, 0.1) for cores in (1, 4))
    for cores, sample in ((1, one), (4, four)):
        assert list(sample.details) == ["sim_of_step_s", "act_of_step_s", "learn_of_step_s"]
        assert min(sample.details.values()) > 0
        assert sample.value == pytest.approx(cores / sum(sample.details.values()))
