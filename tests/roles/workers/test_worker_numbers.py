"""Actor, policy and trainer workers learn what TCG_EX learns when no version is old."""

import pytest
import torch

from gmi_drl.roles.workers.forward import ACT, VALUE
from tests.roles.workers.workers_in_process import N, Served, T, Workers, config_of, digest, tcg_ex

CLOSE = {"rtol": 1e-4, "atol": 1e-6}


def test_inline_with_one_actor_and_one_trainer_gives_the_digest_of_tcg_ex():
    config = config_of()
    workers, direct = Workers(config), tcg_ex(config)
    for _ in range(4):
        stats = workers.iterate()
        assert digest(workers.learner) == digest(next(direct))
    assert workers.steps == list(range(T)) * 4
    assert workers.asked[ACT] == 4 * T and workers.asked[VALUE] > 0  # some episodes were cut off
    assert stats.metrics["rows"] == N and stats.metrics["training_samples_per_second"] > 0


@pytest.mark.parametrize(
    "learner",
    [{}, {"bootstrap": "last_value"}, {"memory": "gru", "memory_size": 8, "sequence": 4}],
    ids=["plain", "last value", "memory"],
)
def test_a_policy_worker_with_one_client_gives_what_tcg_ex_gives_to_rounding(learner):
    config, inference = config_of(**learner), Served()
    workers, direct = Workers(config, inference=inference), tcg_ex(config)
    inference.agent = workers.learner.agent
    try:
        for _ in range(3):
            workers.iterate()
            expected = next(direct)
        for name, tensor in workers.learner.state_dict().items():
            torch.testing.assert_close(tensor, expected.state_dict()[name], **CLOSE)
    finally:
        inference.close()


def test_the_members_of_a_ring_fill_columns_of_one_rollout():
    workers = Workers(config_of(), members=2)
    stats = workers.iterate()
    assert workers.asked[ACT] == T  # what the ring has ready is one batch
    assert stats.metrics["rows"] == N
    rollout = workers.slot.rollout
    assert rollout.obs.flatten(0, 1).unique(dim=0).shape[0] > T
    assert (rollout.reward == 1).all() and (rollout.log_prob < 0).all()


def test_a_served_ring_learns_what_an_inline_one_learns():
    config, inference = config_of(), Served()
    served, inline = Workers(config, members=2, inference=inference), Workers(config, members=2)
    inference.agent = served.learner.agent
    try:
        for _ in range(2):
            assert 1 <= served.iterate().metrics["rows"] <= N
            inline.iterate()
    finally:
        inference.close()
    for name, tensor in inline.learner.state_dict().items():
        torch.testing.assert_close(served.learner.state_dict()[name], tensor, **CLOSE)
