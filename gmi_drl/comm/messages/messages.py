"""Messages between the GMIs of a host: trees of tensors from one to another, in order (paper section 3, Listing 1)."""

import struct
import time
from typing import Any

import torch
from torch import Tensor

from gmi_drl.comm.membership import Keepalives
from gmi_drl.comm.memory import fence
from gmi_drl.comm.memory.mailbox import Inbox, Outbox
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.messages.trees import MAX_HEADER_BYTES, Form, decode, encode, filled, raw
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.units import human_bytes

_FRAME = struct.Struct("=QQ")  # bytes of the header, and of the tensors


class Sending:
    """A message that was sent."""

    def __init__(self, outbox: Outbox, number: int) -> None:
        self._outbox, self._number = outbox, number

    def done(self) -> bool:
        """Whether the receiver has read all of it.

        Raises:
            PeerDiedError: If it has not, and has ended.
        """
        return self._outbox.has_read(self._number)

    def wait(self) -> None:
        """Wait until the receiver has read all of it.

        Raises:
            PeerDiedError: If the receiver ended before.
            PeerSilentError: If it has not within `hang_s`.
        """
        self._outbox.await_read(self._number)


class Messages:
    """Sends and receives the messages of one GMI. One thread uses it at a time.

    Tensors on a GPU are copied straight between it and the shared memory, after the earlier work of its current stream.

    Args:
        mailboxes: Inherited; the caller closes them after this object's last use.
        gmi_id: This process, one of those that share the mailboxes.
        hang_s: Seconds after which a living peer counts as silent; only seconds in which this process ran count.
        keepalives: Of this process, sent when a message arrives (`recv_while_active`); None: nobody else waits.
        memory: Of the mailboxes, if this process has mapped it already.

    Raises:
        UsageError: If the GMI has no mailbox, or the memory is something else.
        MachineError: If this processor does not store in order.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        gmi_id: int,
        hang_s: float,
        keepalives: Keepalives | None = None,
        memory: MailboxMemory | None = None,
    ) -> None:
        if obstacle := self.obstacle():
            raise MachineError(obstacle)
        if gmi_id not in mailboxes.eventfds:
            raise UsageError(f"GMI {gmi_id} is not among the {len(mailboxes.eventfds)} GMIs that share mailboxes")
        self._gmi_id, self._gmis = gmi_id, tuple(mailboxes.eventfds)
        self._memory = memory or MailboxMemory(mailboxes.memory)
        self._notifier = Notifier(mailboxes, self._memory, gmi_id, hang_s)
        self._outboxes: dict[int, Outbox] = {}
        self._inboxes: dict[int, Inbox] = {}
        self._keepalives = keepalives or Keepalives()
        # A GMI that waits for this one waits, in effect, for the same ranks.
        self._keepalives.received.append(self._publish_activity_now)

    @staticmethod
    def obstacle() -> str | None:
        """Why this machine cannot pass messages; None if it can."""
        return fence.obstacle("messages")

    def send(self, data: Any, gmi_id: int) -> Sending:
        """Copy data for another GMI. The data may be changed as soon as this returns.

        This waits only while 64 messages or 64 MiB have been sent to that GMI and not read. Of a longer message, as
        much is sent as fits, and the rest as it is read.

        Args:
            data: A tree of tensors (`trees.encode`), which arrive without gradients.
            gmi_id: The receiver, which calls `recv` once for each message, in the same order.

        Raises:
            UsageError: If there is no such other GMI, or the data cannot be sent.
            PeerDiedError: If the receiver has ended.
            PeerSilentError: If this waited and the receiver has read nothing for `hang_s`. If a part of the message was
                sent, nothing more can be sent to that GMI.
            MachineError: If there is no memory for the message; the same holds.
        """
        self._check(gmi_id, "send to")
        header, tensors = encode(data)
        parts = [raw(tensor) for tensor in tensors]
        head = _FRAME.pack(len(header), sum(part.numel() for part in parts)) + header
        if gmi_id not in self._outboxes:
            self._outboxes[gmi_id] = Outbox(self._memory, self._notifier, gmi_id)
        outbox = self._outboxes[gmi_id]
        return Sending(outbox, outbox.send([torch.frombuffer(bytearray(head), dtype=torch.uint8), *parts]))

    def recv(self, gmi_id: int, device: torch.device | str = "cpu") -> Any:
        """Wait for the next message of another GMI and return its data.

        Args:
            gmi_id: The sender.
            device: Where the tensors, which are new ones, shall be.

        Raises:
            UsageError: If there is no such other GMI.
            PeerDiedError: If the sender ended before it had sent a whole message.
            PeerSilentError: If it has sent nothing for `hang_s`.
            MachineError: If the message does not fit into the device's memory.
            GmiError: If the bytes are no message. After this, or any error half-way, no further message can be
                received.
        """
        device, inbox = torch.device(device), self._inbox(gmi_id)

        def take(form: Form) -> Tensor:
            try:
                tensor = form.empty(device)
            except RuntimeError as error:
                size = human_bytes(form.nbytes)
                raise MachineError(f"no room on {device} for a tensor of {size} from GMI {gmi_id}: {error}") from None
            inbox.read(raw(tensor))
            return tensor

        with inbox.message():
            header_bytes, body_bytes = _FRAME.unpack(_read_bytes(inbox, _FRAME.size))
            try:
                if header_bytes > MAX_HEADER_BYTES:
                    raise ValueError(f"its header has {header_bytes} bytes")
                tree = decode(_read_bytes(inbox, header_bytes), body_bytes)
            except ValueError as error:
                raise GmiError(f"GMI {gmi_id} has sent GMI {self._gmi_id} bytes that are no message: {error}") from None
            return filled(tree, take)

    def recv_while_active(self, gmi_id: int, device: torch.device | str = "cpu", patience: float = 1) -> Any:
        """`recv` from a GMI that may itself wait for others: each message that one of those sends restarts the wait.

        GMIs that wait for this one in the same way learn of these messages, too: of those that arrive here, and of
        those that `gmi_id` learns of. Each message is counted once, by its time, so GMIs that wait for each other do
        not restart their waits for ever.

        Args:
            gmi_id: As of `recv`.
            device: As of `recv`.
            patience: How many times `hang_s` this waits; see `gmi_drl.layout.waits`.

        Raises:
            GmiError: As `recv`; PeerSilentError if neither this GMI nor any that it waits for has sent anything.
        """

        def activity() -> int:
            self._publish_activity(known := self._memory.activity_ns(gmi_id))
            return known

        self._inbox(gmi_id).await_message(patience, activity)
        data = self.recv(gmi_id, device)
        self._publish_activity(time.monotonic_ns())
        return data

    def close(self) -> None:
        """Stop watching the peers. What has been sent can still be received."""
        self._notifier.close()
        self._outboxes.clear()
        self._inboxes.clear()

    def _publish_activity(self, at_ns: int) -> None:
        """Publish the time of a message to the GMIs that wait for this one, if it is newer than the last one."""
        if at_ns > self._memory.activity_ns(self._gmi_id):
            self._memory.set_activity_ns(self._gmi_id, at_ns)
            for send in self._keepalives.send:
                send()

    def _publish_activity_now(self) -> None:
        """Publish that a rank of one of this GMI's groups, for which it waits, has sent a keepalive."""
        self._memory.set_activity_ns(self._gmi_id, time.monotonic_ns())

    def _inbox(self, gmi_id: int) -> Inbox:
        self._check(gmi_id, "receive from")
        if gmi_id not in self._inboxes:
            self._inboxes[gmi_id] = Inbox(self._memory, self._notifier, gmi_id)
        return self._inboxes[gmi_id]

    def _check(self, gmi_id: int, action: str) -> None:
        if type(gmi_id) is not int or gmi_id == self._gmi_id or gmi_id not in self._gmis:
            others = f"the id of one of the {len(self._gmis)} GMIs of this host that is not itself"
            raise UsageError(f"GMI {self._gmi_id} cannot {action} GMI {gmi_id!r}: it must be {others}")


def _read_bytes(inbox: Inbox, count: int) -> bytearray:
    buffer = bytearray(count)
    if count:
        inbox.read(torch.frombuffer(buffer, dtype=torch.uint8))
    return buffer
