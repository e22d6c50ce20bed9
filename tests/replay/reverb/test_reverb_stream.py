"""Streams of cells: what a refused item and a server that ended leave to the writers that come after."""

import os
import time

import numpy as np
import pytest

from gmi_drl.replay import reverb
from gmi_drl.replay.extensions import Extension
from tests.replay.reverb.reverb_servers import served, uniform

SMALL = {"memory_bytes": 2**20, "item_bytes": 2**16}


class RefusesOne(Extension):
    """Refuses the first item."""

    has_refused = False

    def inserted(self, slots):
        if not self.has_refused:
            self.has_refused = True
            raise ValueError("not this one")


def test_an_item_that_is_refused_is_no_error_of_the_next_writer():
    with served(uniform(extensions=[RefusesOne()]), **SMALL) as (_, client):
        writer = client.trajectory_writer(1)
        writer.append(1.0)
        writer.create_item("table", 1.0, writer.history[-1:])
        writer._stream.send()
        ours, deadline = writer._stream._writer, time.monotonic() + 60
        while ours.in_flight:
            ours._connection.read(ours._answers.handle)
            assert time.monotonic() < deadline
        writer.close()
        client.insert(2.0, {"table": 1.0})
        assert client.server_info()["table"].current_size == 1


def test_a_fork_inserts_by_a_stream_of_its_own(monkeypatch):
    with served(uniform(), **SMALL) as (_, client):
        client.insert(1.0, {"table": 1.0})
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: 7)
            client.insert(2.0, {"table": 1.0})
        assert client.server_info()["table"].current_size == 2


def test_a_client_inserts_again_after_its_server_was_restarted():
    with served(uniform(), **SMALL) as (server, client):
        client.insert(1.0, {"table": 1.0})
    with served(uniform(), port=server.port, **SMALL):
        client.insert(2.0, {"table": 1.0})
        assert [sample.data[0] for [sample] in client.sample("table")] == [2.0]


def test_a_refusal_that_comes_at_the_end_of_a_block_spoils_no_later_item():
    with served(uniform(), **SMALL) as (_, client):
        writer = client.trajectory_writer(1)

        def insert(array):
            writer.append(array)
            writer.create_item("table", 1.0, [writer.history[path][-1:] for path in writer.history if path in array])

        insert({"large": np.ones(5000)})
        ours = writer._stream._writer
        usual = ours.append

        def append(fields):
            usual(fields)
            if not ours.room:  # the answer comes when the block was filled up
                ours._answers.failure = {"kind": "GmiError", "message": "not this one", "done": 0}

        ours.append = append
        with pytest.raises(reverb.ReverbError, match="not this one"):
            insert({"large": np.ones(5000)})
        ours.append = usual
        insert({"small": np.full(3, 7.0)})
        insert({"large": np.ones(5000)})
        writer.flush()
        found = {sample.data[0].sum() for sample in client.sample("table", 50, emit_timesteps=False)}
        assert found == {5000.0, 21.0}
