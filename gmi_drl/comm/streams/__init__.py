"""Inference streams: actors post observations, policy workers answer with actions (SRL, section 2.2.3).

On one host a stream is one sealed memory with a slot for each client and member of its ring (`slots.py`). A client
writes a request into its slot, counts it in a word, and wakes the server by an eventfd (`client.py`). The server reads
requests where they lie, so that gathering a batch is the one copy, and writes answers into the same slots
(`server.py`); `batching.py` decides which requests go together. An actor with an agent of its own needs no slots
(`inline.py`).

**Nothing lost, nothing twice.** A request is open until its number stands beside it as answered. A server that ends
leaves its open requests to its successor, for which clients wait if one will come. It computes the same answer: servers
keep nothing between requests, since the noise and the state of a policy's memories lie in the slot. A client that is
succeeded goes on counting where its predecessor ended.
"""

from gmi_drl.comm.memory import fence
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.streams.client import Answer, StreamClient
from gmi_drl.comm.streams.server import StreamServer
from gmi_drl.comm.streams.sizes import StreamSizes
from gmi_drl.comm.streams.slots import StreamMemory
from gmi_drl.errors import MachineError, UsageError

__all__ = [
    "Answer",
    "StreamClient",
    "StreamMemory",
    "StreamServer",
    "StreamSizes",
    "join_stream",
]


def join_stream(
    memory: int, mailboxes: Mailboxes, gmi_id: int, sizes: StreamSizes, hang_s: float
) -> tuple[StreamMemory, Notifier]:
    """Map the memory of a stream, for a `StreamClient` or a `StreamServer`. The first server makes it.

    Args:
        memory: Of `memory.segment.create_empty`; the caller closes it after the last use.
        mailboxes: Of the GMIs of this host.
        gmi_id: This process, one of the sizes' servers or clients.
        sizes: The same for all ends.
        hang_s: Seconds after which a living peer counts as silent.

    Raises:
        UsageError: If the GMI is neither, or the memory was made for other sizes.
        MachineError: If there is not enough memory, or this processor does not store in order.
        PeerDiedError: If the first server has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """
    if reason := fence.obstacle("inference streams"):
        raise MachineError(reason)
    if gmi_id not in (*sizes.servers, *sizes.all_clients):
        raise UsageError(f"GMI {gmi_id} is neither a server nor a client of this stream")
    notifier = Notifier(mailboxes, MailboxMemory(mailboxes.memory), gmi_id, hang_s)
    try:
        return StreamMemory(memory, sizes, notifier), notifier
    except BaseException:
        notifier.close()
        raise
