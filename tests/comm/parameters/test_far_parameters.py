"""Parameters that go to another host once, and are passed on there: both hosts are in this process."""

import os
import socket
import struct
import threading
import time
from contextlib import closing, contextmanager

import pytest
import torch

from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_trainer, packed_bytes
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.host_links import MESSAGE_BYTES
from gmi_drl.comm.links.framing import CALL, FIRST_OTHER_KIND, FramedConnection, FrameError
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.parameters.host_memory import HostParameters, HostSizes
from gmi_drl.comm.parameters.proxy import NEWER, NEWEST, SIZES, ParameterProxy
from gmi_drl.comm.parameters.receiver import ParameterReceiver
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

TRAINER, AGENT, RECEIVER, READER = 0, 1, 5, 6
HANG_S = 20.0
SOON_S = 0.02


def weights(value=0.0):
    return [torch.full((3, 5), value), torch.full((2,), value, dtype=torch.float64)]


def channel_sizes():
    form = RolloutForm(horizon=2, num_env=1, observation=vector(3), action=continuous(1))
    nbytes = packed_bytes(weights())
    return ChannelSizes(form, 1, (AGENT,), (TRAINER,), Channels(max_lag=0), nbytes, readers=(RECEIVER,))


class Hosts:
    """The trainers' host with a trainer and the proxy's thread, and one with a receiver and a reader."""

    def __init__(self, hang_s=HANG_S):
        self.sizes, self.memory, self.hang_s = channel_sizes(), create_memory(), hang_s
        self.mailboxes = create_mailboxes([TRAINER, AGENT, RECEIVER])
        self.trainer = join_as_trainer(self.memory, self.mailboxes, TRAINER, self.sizes, hang_s)
        here, there = socket.socketpair()
        here, self.there = FramedConnection(here, 1, MESSAGE_BYTES), FramedConnection(there, 1)
        self.proxy = ParameterProxy(here, ProxyHost(self.memory, self.mailboxes, hang_s), RECEIVER, lambda: "task")
        self.error, self.has_left = None, False
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        self.host_memory, self.host_mailboxes = create_empty("host"), create_mailboxes([RECEIVER, READER])
        self.receiver = ParameterReceiver(self.there, "the proxy", hang_s)

    def _serve(self):
        try:
            self.proxy.serve()
        except GmiError as error:
            self.error = error

    def read_here(self, own, nbytes=None):
        sizes = HostSizes(nbytes or self.sizes.parameter_bytes, RECEIVER, (READER,))
        return HostParameters(self.host_memory, self.host_mailboxes, own, sizes, self.hang_s, 1)

    def start(self):
        assert self.receiver.info(HANG_S) == "task"
        self.receiver.start(self.sizes, self.read_here(RECEIVER))

    def leave(self, is_done=False):
        """The receiver needs no more, and is done or has failed. Returns the error of the proxy."""
        self.has_left = True
        if is_done:
            self.receiver.finish()
        self.receiver.close()
        self.thread.join()
        return self.error

    def close(self):
        if not self.has_left:
            self.leave()
        self.proxy.close()
        self.trainer.close()
        for mailboxes in (self.mailboxes, self.host_mailboxes):
            mailboxes.close()
        os.close(self.memory)
        os.close(self.host_memory)


@contextmanager
def hosts(**more):
    with closing(Hosts(**more)) as made:
        yield made


def test_all_policy_workers_of_a_host_read_what_is_received_once():
    with hosts() as made:
        made.trainer.parameters.publish(0, weights(0.5))
        made.start()
        with closing(made.read_here(READER)) as reader:
            for version in range(1, 4):
                made.trainer.parameters.publish(version, weights(version + 0.5))
                for end in (made.receiver, reader):
                    end.parameters.await_version(version)
                    read = weights()
                    assert end.parameters.read_into(read) == version
                    assert all(bool((one == version + 0.5).all()) for one in read)
        assert made.leave(is_done=True) is None


def test_a_version_far_ahead_of_all_that_trainers_have_published_is_not_waited_for():
    with hosts() as made:
        made.receiver._ask_s = SOON_S
        made.trainer.parameters.publish(7, weights())
        made.start()
        with closing(made.read_here(READER)) as reader:
            for end in (made.receiver, reader):
                assert end.await_version(7) and not end.await_version(9)
            made.trainer.parameters.publish(8, weights())
            assert reader.await_version(8)


def test_which_version_is_the_newest_is_asked_only_while_somebody_waits_for_one():
    with hosts() as made:
        made.receiver._ask_s, asked = SOON_S, []
        handle = made.proxy._handle
        made.proxy._handle = lambda kind, payload: (asked.append(kind), handle(kind, payload))
        made.trainer.parameters.publish(0, weights())
        made.start()
        with closing(made.read_here(READER)) as reader:
            assert reader.parameters.read_into(weights()) == 0
            for end in (reader, made.receiver):
                time.sleep(10 * SOON_S)
                assert NEWEST not in asked
                assert not end.await_version(9)
                time.sleep(10 * SOON_S)
                assert asked.count(NEWEST) == 2, "as many answers as a wait needs"
                asked.clear()


def test_it_is_not_waited_for_either_while_trainers_publish_and_send_keepalives_all_the_time():
    refused, most_s = threading.Event(), 10.0

    def be_busy(trainer):
        began, version = time.perf_counter(), 0
        while not refused.wait(SOON_S / 10) and time.perf_counter() - began < most_s:
            version += 1
            trainer.parameters.publish(version, weights())
            trainer._send_keepalive()

    with hosts() as made:
        made.receiver._ask_s = 10 * SOON_S
        made.trainer.parameters.publish(0, weights())
        made.start()
        busy = threading.Thread(target=be_busy, args=(made.trainer,))
        busy.start()
        assert not made.receiver.await_version(2**40)
        was_busy = busy.is_alive()
        refused.set()
        busy.join()
        assert was_busy


def test_a_short_hang_s_is_enough_for_the_answers_that_a_reader_needs():
    with hosts(hang_s=0.8) as made:
        assert 4 * made.receiver._ask_s <= 0.8 / 2


def test_a_version_whose_numbers_are_under_way_is_waited_for():
    """The trainers' host has told what is the newest, twice; its numbers come later."""
    with hosts() as made:
        made.receiver._ask_s = 1e3
        made.trainer.parameters.publish(0, weights())
        made.start()
        made.receiver.await_version(0)
        tell = made.receiver._host.tell_newest
        for version in (5, 5):
            threading.Timer(0.05, tell, (version,)).start()
        later = threading.Timer(0.2, made.receiver.parameters.pass_on, (5, [made.receiver._raw]))
        later.start()
        assert made.receiver.await_version(5)
        later.join()


def test_a_trainers_own_host_knows_at_once_which_versions_there_are_and_waits_for_the_next():
    with hosts() as made, closing(made.proxy._host.join_as_reader(RECEIVER, made.sizes)) as reader:
        made.trainer.parameters.publish(7, weights())
        assert reader.await_version(7) and not reader.await_version(9)
        next_one = threading.Timer(0.05, made.trainer.parameters.publish, (8, weights()))
        next_one.start()
        assert reader.await_version(8)
        next_one.join()


def test_only_a_receiver_that_is_done_waits_until_the_others_have_left():
    """One that has failed ends at once, and so tells why: nobody leaves here."""
    asked = []
    with hosts(hang_s=1e6) as made:
        made.start()
        made.receiver._host._notifier.wait_until_left = lambda readers, *_: asked.append(readers)
        made.receiver.finish()
        assert asked == [(READER,)]
        made.receiver._host.lost = PeerDiedError("the proxy ended")
        made.receiver.finish()
        assert made.leave() is None and asked == [(READER,)]


def test_a_lost_connection_is_told_to_whom_waits_for_a_version():
    with hosts() as made:
        made.start()
        made.proxy._connection._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(PeerDiedError, match="the proxy ended while GMI 5 needed it"):
            made.receiver.parameters.await_version(3)


def test_an_error_of_the_proxy_reaches_whom_waits_for_a_version():
    with hosts() as made:
        made.start()
        frame = struct.pack("<QQ", FIRST_OTHER_KIND + 9, 0)
        made.there._socket.sendall(frame)  # not by `made.there`, which the receiver's thread uses at the same time
        with pytest.raises(GmiError, match="GMI 5 sent a frame of unknown kind"):
            made.receiver.parameters.await_version(3)
        assert "unknown kind" in str(made.leave())


@pytest.mark.parametrize(
    ("kind", "size", "body", "why"),
    [
        (NEWER, 3, b"xyz", "unpack requires a buffer of 8 bytes"),
        (SIZES, 1, b"\xff", "'utf-8' codec can't decode"),
        (SIZES, 2**40, b"", "a message of 1099511627776 bytes came"),
        (CALL, 7, b"", "a frame of kind 0 came"),
    ],
)
def test_what_no_policy_worker_sends_is_refused_by_the_name_of_who_has_sent_it(kind, size, body, why):
    with hosts() as made:
        made.start()
        made.there._socket.sendall(struct.pack("<QQ", kind, size) + body)  # see above
        refused = f"GMI 5 sent a damaged frame: {why}"
        with pytest.raises(GmiError, match=refused):
            made.receiver.parameters.await_version(3)
        assert refused in str(made.leave())


def test_a_damaged_frame_of_the_proxy_is_an_error_of_ours_by_its_name():
    with hosts() as made:
        made.start()
        made.proxy._connection._socket.sendall(struct.pack("<QQ", NEWEST, 3) + b"bad")
        with pytest.raises(FrameError, match="the proxy sent a damaged frame"):
            made.receiver.parameters.await_version(3)


def test_a_receiver_that_publishes_nothing_is_named():
    with hosts() as made:
        made.start()
        made.hang_s = 0.1
        silent = r"GMI 5 \(process \d+\) lives but has not published version 0"
        with closing(made.read_here(READER)) as reader, pytest.raises(PeerSilentError, match=silent):
            reader.parameters.await_version(0)
        with pytest.raises(UsageError, match="the parameters of this host have other sizes"):
            made.read_here(READER, nbytes=64)
