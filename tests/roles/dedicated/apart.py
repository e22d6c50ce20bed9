"""Simulators of real worlds in threads of this process, and an agent's end, joined by real messages."""

import threading
from contextlib import closing, contextmanager

import torch

from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.roles.dedicated.remote_task import RemoteTask
from gmi_drl.roles.dedicated.simulator import serve_task
from gmi_drl.roles.peer import Peer

HANG_S = 60.0


class Mail:
    """The messages of one GMI, as its manager passes them; `numbers` counts those of the tensors that it sent."""

    def __init__(self, mailboxes, gmi_id, hang_s=HANG_S):
        self.messages, self.nbytes, self.hang_s = Messages(mailboxes, gmi_id, hang_s), 0, hang_s

    def send(self, data, GMI_id):
        self.nbytes += tensor_bytes(data)
        return self.messages.send(data, GMI_id)

    def recv(self, GMI_id):
        return self.messages.recv(GMI_id, "cpu")

    def recv_while_active(self, GMI_id, patience):
        return self.messages.recv_while_active(GMI_id, "cpu", patience)


def tensor_bytes(tree):
    if isinstance(tree, torch.Tensor):
        return tree.nbytes
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return sum(map(tensor_bytes, parts))


@contextmanager
def mail_of(count):
    """The mail of so many GMIs."""
    mailboxes = create_mailboxes(range(count))
    mails = [Mail(mailboxes, gmi_id) for gmi_id in range(count)]
    try:
        yield mails
    finally:
        for mail in mails:
            mail.messages.close()
        mailboxes.close()


@contextmanager
def remote(*tasks):
    """A `RemoteTask` over these tasks, each with a simulator, and the mail of all; the agent's is the last."""
    agent = len(tasks)
    with mail_of(agent + 1) as mails:
        threads = [
            threading.Thread(target=serve_task, args=(task, Peer(mail, agent)), daemon=True)
            for task, mail in zip(tasks, mails, strict=False)
        ]
        for thread in threads:
            thread.start()
        with closing(RemoteTask([Peer(mails[-1], i) for i in range(agent)], torch.device("cpu"))) as task:
            yield task, mails
        for thread in threads:
            thread.join(timeout=HANG_S)
        assert not any(thread.is_alive() for thread in threads), "who is closed ends"
