"""A policy worker's two copies of the policy."""

import threading

import pytest
import torch

from gmi_drl.errors import PeerSilentError
from gmi_drl.roles.workers.newest_policy import NewestPolicy

ANSWER_S = 10


class Reader:
    """Parameters of one number, which `hold` keeps from being read."""

    def __init__(self):
        self.newest, self.may_read, self.parameters = 3, threading.Event(), self
        self.may_read.set()

    def newest_version(self):
        return self.newest

    def await_version(self, version):
        if self.newest + 1 == version:
            raise PeerSilentError(f"no version {version}")
        return self.newest >= version

    def read_into(self, tensors):
        assert self.may_read.wait(ANSWER_S)
        tensors[0].fill_(self.newest)
        return self.newest


class Copy:
    def __init__(self):
        self.agent, self.version = torch.zeros(1), None

    def read(self, reader):
        self.version = reader.parameters.read_into([self.agent])


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def policy(reader):
    made = NewestPolicy((Copy(), Copy()), reader)
    yield made
    reader.may_read.set()
    made.close()


def test_the_first_version_is_waited_for(policy):
    agent, version = policy.at_least(0)
    assert (version, float(agent)) == (3, 3.0)


def test_a_request_that_can_do_with_the_old_version_does_not_wait_for_the_new_one(policy, reader):
    policy.at_least(0)
    reader.may_read.clear()
    reader.newest = 4
    assert policy.at_least(3)[1] == 3
    reader.may_read.set()
    agent, version = policy.at_least(4)
    assert (version, float(agent)) == (4, 4.0)


def test_the_other_copy_is_read_while_one_answers(policy, reader):
    before, _ = policy.at_least(0)
    reader.newest = 9
    agent, version = policy.at_least(9)
    assert version == 9 and agent is not before and float(before) == 3.0
    reader.newest = 10
    assert policy.at_least(10)[0] is before


def test_a_version_that_nobody_publishes_is_not_waited_for_without_end(policy):
    policy.at_least(3)
    with pytest.raises(PeerSilentError, match="no version 4"):
        policy.at_least(4)
    assert policy.at_least(3)[1] == 3 and policy.wait_s > 0


def test_there_is_no_agent_of_a_version_far_ahead(policy):
    assert policy.at_least(9) is None and policy.at_least(3)[1] == 3
