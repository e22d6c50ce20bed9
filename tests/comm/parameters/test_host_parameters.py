"""The parameters of a host whose receiver dies and is started again. All policy workers are in this process."""

import os
import subprocess
import threading
from contextlib import closing, contextmanager

import pytest
import torch

from gmi_drl.comm.channels import packed_bytes
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.parameters.host_memory import HostParameters, HostSizes
from gmi_drl.errors import PeerDiedError, PeerSilentError

RECEIVER, READER = 5, 6


def weights(value=0.0):
    return [torch.full((3, 5), value)]


class Host:
    """A memory, and a process that stands for the receiver's, which does nothing else."""

    def __init__(self, hang_s):
        self.memory, self.mailboxes, self.hang_s = create_empty("host"), create_mailboxes([RECEIVER, READER]), hang_s
        self.sizes, self.processes = HostSizes(packed_bytes(weights()), RECEIVER, (READER,)), []

    def open(self, own, **more):
        return HostParameters(self.memory, self.mailboxes, own, self.sizes, self.hang_s, 1, **more)

    def receiver(self, predecessors=0):
        made = self.open(RECEIVER, predecessors=predecessors)
        self.processes.append(subprocess.Popen(["sleep", "1000"]))
        MailboxMemory(self.mailboxes.memory).set_pid(RECEIVER, self.processes[-1].pid)
        made.wake_all()
        return made

    def kill(self):
        self.processes[-1].kill()
        self.processes[-1].wait()

    def close(self):
        self.kill()
        self.mailboxes.close()
        os.close(self.memory)


@contextmanager
def host(hang_s=10.0, **more):
    """A host whose receiver has published version 3; and its reader."""
    with closing(Host(hang_s)) as made:
        first = made.receiver()
        first.parameters.pass_on(3, weights(3.0))
        with closing(made.open(READER, **more)) as reader:
            assert reader.await_version(3)
            yield made, reader


def test_a_reader_gets_the_versions_of_the_receivers_successor():
    with host(awaits_successors=True) as (made, reader):
        made.kill()
        read = weights()
        assert reader.parameters.read_into(read) == 3 and float(read[0][0, 0]) == 3.0, "what is here needs nobody"

        def come(predecessors, version):
            made.receiver(predecessors).parameters.pass_on(version, weights(float(version)))

        for process, version in ((1, 4), (2, 5)):
            coming = threading.Timer(0.1, come, (process, version))
            coming.start()
            assert reader.await_version(version) and reader.parameters.read_into(read) == version
            assert float(read[0][0, 0]) == version
            coming.join()
            made.kill()


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({}, PeerDiedError, "for GMI 6: its log says why$"),
        ({"awaits_successors": True}, PeerSilentError, r"its log says why, and no successor has come for 0\.3 s"),
    ],
)
def test_a_receiver_that_nobody_succeeds_is_named(more, error, text):
    with host(hang_s=0.3, **more) as (made, reader):
        made.kill()
        with pytest.raises(error, match=rf"GMI 5 .* ended and has not published version 4 of the parameters .*{text}"):
            reader.await_version(4)
