"""Calls of clients: answers belong to their requests, and connections to the process that made them."""

import math
import os

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay import ServerDataset
from gmi_drl.replay.client import calls
from gmi_drl.replay.client.connection import ServerConnection
from gmi_drl.replay.client.samples import Wish
from gmi_drl.replay.words import RESET, SAMPLE, UPDATE, Number, Sample, WordError, write
from tests.replay.servers import long_table, served, steps


def test_a_fork_connects_anew_and_leaves_writers_and_samplers_to_its_parent(monkeypatch):
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        (own,) = client._pools[0]._idle
        with client.writer("numbers") as writer, client.sampler("numbers", 1) as sampler:
            next(sampler)
            with monkeypatch.context() as forked:
                forked.setattr(os, "getpid", lambda: 7)
                client.insert(steps(2), {"numbers": 1.0})
                assert own not in client._pools[0]._idle and own.connection.framed.is_open
                for call in (lambda: writer.append(steps(3)), writer.send, lambda: next(sampler)):
                    with pytest.raises(UsageError, match=r"process 7 has a writer or sampler of process .* after the"):
                        call()
            next(sampler)
        assert server.tables[0].size == 2


def test_an_answer_to_another_request_is_refused():
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        sample, reset = (SAMPLE, Sample(99, 0, 1, 0, 1, -1, 1.0)), (RESET, Number(99, 0))
        keys, priorities = torch.tensor([1]), torch.ones(1).double()
        for (kind, word), call in (
            (sample, lambda connection: calls.sampled(connection, Wish("numbers", 1), 0)),
            (reset, lambda connection: calls.send_keys(connection, UPDATE, 0, keys, priorities)),
        ):
            connection = ServerConnection(server.address)
            connection.framed.send_together([(kind, write(word))])
            with pytest.raises(WordError, match="an answer to request 99 came where 1 was expected"):
                call(connection)
            connection.close()


def test_keys_and_priorities_that_do_not_go_together_are_told_and_the_connection_stays():
    with served(long_table()) as (_, client):
        for number in (1, 2):
            client.insert(steps(number), {"numbers": 1.0})
        keys = client.sample("numbers", 2, distinct=True).keys
        with pytest.raises(UsageError, match=r"priorities are \[3\], the items \[2\]"):
            client.update("numbers", keys, torch.ones(3))
        with pytest.raises(UsageError, match="0 or more, not nan"):
            client.update("numbers", keys, float("nan"))
        assert client.update("numbers", keys.to(torch.int32), 1.0) == 0  # the high bits of a key are lost
        assert client.update("numbers", keys, torch.tensor([2.0])) == 2 == client.delete("numbers", keys)


@pytest.mark.parametrize("timeout_s", [math.inf, math.nan, 86_401, -1e-9])
def test_waits_that_no_server_allows_are_told(timeout_s):
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        for call in (
            lambda: client.sample("numbers", 1, timeout_s=timeout_s),
            lambda: client.insert(steps(1), {"numbers": 1.0}, timeout_s=timeout_s),
            lambda: client.writer("numbers", timeout_s=timeout_s),
            lambda: client.sampler("numbers", 1, timeout_s=timeout_s),
            lambda: next(iter(ServerDataset(server.address, "numbers", timeout_s=timeout_s))),
        ):
            with pytest.raises(UsageError, match=f"timeout_s is {timeout_s}: give 0 to 86400 seconds"):
                call()
        assert len(client.sample("numbers", 1, timeout_s=86_400).keys) == 1
