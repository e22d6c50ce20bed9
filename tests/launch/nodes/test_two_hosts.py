"""Trainings over two hosts with addresses of their own."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from conftest import two_cores
from networks import needs_hosts, two_hosts
from on_two import config, over
from test_training_on_nodes import gone, learner, processes_of, trained

from gmi_drl.errors import GmiError


def in_table(address):
    """As /proc/net/tcp has it."""
    return socket.inet_aton(address)[::-1].hex().upper()


pytestmark = [needs_hosts, two_cores]


def test_gradients_go_between_hosts_and_all_learn_the_same(tmp_path):
    tables = set()

    def look(row):  # of the connections in the namespaces of all GMIs
        tables.update(Path(f"/proc/{process.pid}/net/tcp").read_text() for process in processes_of(tmp_path))

    _, here = trained(tmp_path / "here", over(None, None), None)
    with two_hosts() as hosts:
        _, there = trained(tmp_path / "there", over("a", "b"), hosts, on_row=look)
    assert learner(there) == learner(here)
    between = [f"{in_table(address)}:" for address in hosts.addresses.values()]
    assert any(all(one in line for one in between) for table in tables for line in table.splitlines())


def test_a_link_that_is_down_for_five_seconds_is_survived(tmp_path):
    told, rows, last = [], [], []
    with two_hosts() as hosts:
        cut = hosts.cutting("b", 5, rows)

        def on_row(row):  # it ends when it has gone on
            cut(row)
            if told and not last:
                last.append(os.kill(os.getpid(), signal.SIGTERM))

        more = {"on_row": on_row, "on_warning": told.append}
        _, outcome = trained(tmp_path / "run", over("a", "b"), hosts, config=config(iterations=10**6), **more)
    assert (outcome.state, outcome.signal) == ("stopped", signal.SIGTERM)
    assert any("node b has been silent for" in line for line in told)


def test_a_host_that_cannot_be_reached_is_lost_and_named(tmp_path):
    cut_at, before = [], []

    def cut(row):
        if not cut_at:
            before.extend(process.pid for process in processes_of(tmp_path))
            cut_at.append(time.monotonic())
            hosts.link("b", "down")

    with two_hosts() as hosts:
        with pytest.raises(GmiError, match=r"node b: it has been silent for [89] s\) was lost with its node"):
            trained(tmp_path / "run", over("a", "b"), hosts, config=config(iterations=10**6), on_row=cut)
        assert time.monotonic() - cut_at[0] < 60
    assert before and gone(before), "what runs there ends, too"
