"""GMI 1 of those that share mailboxes: `messages_worker.py ACTION MEMORY EVENTFD EVENTFD` writes a result to stdout."""

import os
import sys

import torch

from gmi_drl.comm.memory.mailbox_memory import PIECE_BYTES, Mailboxes
from gmi_drl.comm.messages.messages import Messages

BIG = 5 * PIECE_BYTES  # more than a mailbox of the tests holds


def echo(messages):
    """Send back what comes, until None comes."""
    print("open", flush=True)
    while (tree := messages.recv(0)) is not None:
        messages.send({"echo": tree, "pid": os.getpid()}, 0)


def stand(messages):
    """Send three whole messages, and do nothing more."""
    for number in range(3):
        messages.send(number, 0)
    input()


def leave(messages):
    """The same, and end."""
    for number in range(3):
        messages.send(number, 0)


def stick(messages):
    """Send a whole message, and one that is longer than is taken."""
    messages.send("whole", 0)
    messages.send(torch.zeros(BIG, dtype=torch.uint8), 0)


if __name__ == "__main__":
    memory, *notifier = map(int, sys.argv[2:])
    globals()[sys.argv[1]](Messages(Mailboxes(memory, dict(enumerate(notifier))), 1, hang_s=60))
