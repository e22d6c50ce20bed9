import os

import pytest

from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_trainer
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.config.learners import A3CConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


def test_an_actor_is_told_all_that_it_needs():
    config = A3CConfig(gamma=0.9)
    told = config.horizon, config.gamma, config.lam, config.reward_scale, config.bootstrap
    assert told == (8, 0.9, 1.0, 1.0, "final_obs")


def test_a_task_gives_its_sizes_and_scales():
    config = A3CConfig.for_task(TASK_SPECS["shadow_hand"])
    assert (config.hidden, config.reward_scale, config.init_std) == ((512, 512, 512, 256), 0.05, 0.7)


def test_experience_is_learnt_from_once_and_nothing_sets_that():
    assert A3CConfig().epochs == 1
    with pytest.raises(UsageError, match="epochs: unknown key"):
        parse(A3CConfig, {"epochs": 2}, "here")


def test_memory_is_that_of_two_copies_of_a_batch_and_of_judging_it_whole():
    def taken(num_env=100, **settings):
        return A3CConfig(**settings).memory_bytes(ANT, num_env)

    learner = 6 * A3CConfig(hidden=(8,)).bucket_bytes(ANT)
    samples = 4 * 8 * (2 * (60 + 8 + 5) + 16)
    assert taken(hidden=(8,), minibatches=8) == learner + 100 * (samples + 4 * 8 * 8)
    assert taken(hidden=(8,), minibatches=1) == learner + 100 * (samples + 4 * 8 * 48)


def test_predicted_channel_bytes_match_allocated():
    """Beside batches they have queues and parameters."""
    config = A3CConfig(horizon=16)
    form = RolloutForm(16, 256, ANT.observation, ANT.action, num_terms=3)
    ends = ChannelSizes(form, 2, (2, 3, 4, 5), (0, 1), Channels(max_lag=3), config.bucket_bytes(ANT))
    mailboxes, shared = create_mailboxes(range(6)), create_memory()
    join_as_trainer(shared, mailboxes, 0, ends, hang_s=1.0).close()
    size = os.fstat(shared).st_size
    os.close(shared)
    mailboxes.close()
    foretold = 2 * config.batches_bytes(ANT, Channels(max_lag=3), 2, 256)
    assert foretold <= size < foretold + 4 * config.bucket_bytes(ANT)
