"""Both ends of a stream in one process. Answers are twice the requests, and the version that was wanted."""

import os
import subprocess
from contextlib import contextmanager

from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.layout.experience import Kind

REQUEST, ANSWER = (Kind("obs", (2, 3)), Kind("noise", (2, 1))), (Kind("action", (2, 1)),)


def sizes_of(servers=(0,), clients=((1, 2),), members=1, rows=2):
    return StreamSizes(REQUEST, ANSWER, rows, servers, clients, members)


class Ends:
    """A stream whose ends are all in this process. The process of a client is one that does nothing else.

    Clients in `far` are those of other hosts: they have no mailbox.
    """

    def __init__(self, sizes, hang_s=5.0, far=()):
        self.sizes, self.hang_s = sizes, hang_s
        self.mailboxes = create_mailboxes([gmi for gmi in (*sizes.servers, *sizes.all_clients) if gmi not in far])
        self.memory = create_empty("test-stream")
        self.pids = MailboxMemory(self.mailboxes.memory)
        self.processes = {}

    def server(self, gmi=0, wait_s=0.0, **more):
        return StreamServer(*self.join(gmi), wait_s=wait_s, **more)

    def client(self, gmi, predecessors=0, **more):
        made = StreamClient(*self.join(gmi), predecessors=predecessors, **more)
        self.live_elsewhere(gmi)
        return made

    def live_elsewhere(self, gmi):
        """Give an end a process of its own, for its end."""
        self.end(gmi)
        self.processes[gmi] = subprocess.Popen(["sleep", "1000"])
        self.pids.set_pid(gmi, self.processes[gmi].pid)

    def join(self, gmi):
        return join_stream(self.memory, self.mailboxes, gmi, self.sizes, self.hang_s)

    def end(self, gmi):
        """End the process of an end."""
        if gmi in self.processes:
            self.processes[gmi].kill()
            self.processes.pop(gmi).wait()

    def close(self):
        for gmi in list(self.processes):
            self.end(gmi)
        self.mailboxes.close()
        os.close(self.memory)


@contextmanager
def ends(sizes=None, **more):
    made = Ends(sizes or sizes_of(), **more)
    try:
        yield made
    finally:
        made.close()


def post(client, value, member=0, version=0):
    client.requests[member]["obs"].fill_(value)
    client.post(member, version=version)


def serve(server):
    """Answer the next batch. Returns its slots."""
    batch = server.next_batch()
    for slot in batch:
        server.answers[slot]["action"].copy_(2 * server.requests[slot]["obs"][:, :1])
    if batch:
        server.answer(server.version_wanted(batch))
    return list(batch)


def value_of(answer):
    return float(answer.tensors["action"][0, 0])
