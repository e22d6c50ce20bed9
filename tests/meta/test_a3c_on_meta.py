"""A3C's update where nothing computes: it does not wait, and takes no memory."""

import pytest
from operation_counts import META, Counts, meta_device

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.config.learners import A3CConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


@pytest.mark.parametrize("vtrace", [True, False])
def test_an_update_does_not_wait(vtrace):
    config = A3CConfig.for_task(ANT).model_copy(update={"horizon": 3, "minibatches": 4, "vtrace": vtrace})
    with meta_device() as watch:
        with watch.allow(float("inf")):
            agent = make_agent(ANT, config, META, seed=0)
            a3c = A3C(agent.policy, agent.normaliser, config)
            batch = ExperienceBatch.empty(RolloutForm(3, 8, ANT.observation, ANT.action), 2, META)
            a3c.update(batch)
        with watch.count() as counts:
            a3c.update(batch)
        assert counts.graphs == 1 + 2 * 4
        assert counts == Counts(counts.launches, counts.graphs, counts.in_graphs), (
            "no memory is taken, nothing is copied"
        )
        with watch.allow(1), watch.count() as counts:
            a3c.metrics()
    assert (counts.to_host, counts.to_device) == (1, 0)
