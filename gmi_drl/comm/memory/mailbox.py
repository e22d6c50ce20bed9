"""The two ends of a mailbox: messages of bytes from one process to another, in order, through shared memory.

A mailbox is a stream of bytes. The sender counts the bytes that it has written, the receiver those that it has read,
each in a line of its own, after every piece and at the end of a message. The stream runs through pieces of memory. The
sender writes down which piece holds which part of the stream, and takes a new one only if none is free. So a mailbox
has as much memory as was ever sent and not yet received, and no more.

The state of an end is in its line, so a process that opens the end of one that has ended goes on after its last
message. One word commits a message, the count of messages; beside it are the positions in the stream at which the last
two messages end.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.mailbox_memory import ORDER, PIECE_BYTES, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.errors import GmiError, PeerDiedError

_SENDER, _RECEIVER = 0, LINE_BYTES // 8  # their lines
_BYTES, _MESSAGES, _ENDS, _GROWN = 0, 1, 2, 4  # words of a line; _ENDS: of the last two messages, by parity
_WRITTEN, _READ, _READ_MESSAGES = _SENDER + _BYTES, _RECEIVER + _BYTES, _RECEIVER + _MESSAGES


class _End:
    """What both ends have in common. `_position` is this end's position in the stream, `_count` its messages."""

    _LINE: int  # the first of its words

    def __init__(self, memory: MailboxMemory, notifier: Notifier, sender: int, receiver: int) -> None:
        start, size = memory.room(sender, receiver)
        self._words = memory.words(sender, receiver)
        self._pieces = torch.frombuffer(memory.memory, dtype=torch.uint8, count=size, offset=start).view(
            -1, PIECE_BYTES
        )
        self._notifier, self._pair = notifier, (sender, receiver)
        self._peer = receiver if notifier.own == sender else sender
        self._count = self._words[self._LINE + _MESSAGES]
        self._position = self._words[self._end_of(self._count)]
        published = self._words[self._LINE + _BYTES]
        self._is_half_way = published > self._position  # the last process ended within a message
        if published < self._position:  # or before it had published the message's end
            self._publish()

    def _order(self, position: int) -> int:
        """The word that holds the piece of a position in the stream."""
        return ORDER + position // PIECE_BYTES % self._pieces.shape[0]

    def _rest_of_piece(self) -> Tensor:
        """The memory from this end's position to the end of its piece."""
        piece = self._words[self._order(self._position)]
        if not 0 <= piece < self._pieces.shape[0]:
            raise GmiError("the mailbox from GMI {} to GMI {} is damaged".format(*self._pair))
        return self._pieces[piece, self._position % PIECE_BYTES :]

    def _chunks(self, count: int, available: Callable[[], int], action: str) -> Iterator[tuple[Tensor, slice]]:
        """The next `count` bytes of the stream as they become available: their memory, and which of the bytes."""
        done = 0
        while done < count:
            self._notifier.wait(lambda: available() > 0, self._peer, action)
            order_loads()
            memory = self._rest_of_piece()
            part = min(memory.numel(), count - done, available())
            yield memory[:part], slice(done, done + part)
            self._position += part
            done += part
            if self._position % PIECE_BYTES == 0:
                self._publish()

    def _publish(self) -> None:
        """Publish this end's position."""
        publish(self._words, self._LINE + _BYTES, self._position)
        self._notifier.notify(self._peer)

    def _end_of(self, count: int) -> int:
        """The word that holds the position at which the message of a number ends."""
        return self._LINE + _ENDS + count % 2

    @contextmanager
    def _one_message(self, may_begin: Callable[[], bool], action: str) -> Iterator[None]:
        """Send or receive one message in a `with` block, when it may begin.

        If some bytes have passed and the rest has not, later messages are refused: the stream has lost its frame.
        """
        if self._is_half_way:
            sender, receiver = self._pair
            raise GmiError(
                f"a message from GMI {sender} to GMI {receiver} was left half-way: no further message can follow"
            )
        self._notifier.wait(may_begin, self._peer, action)
        began = self._position
        try:
            yield
        except BaseException:
            self._is_half_way = self._position != began
            raise
        self._count += 1
        self._words[self._end_of(self._count)] = self._position
        # Last: a process that ends here leaves a whole message or none.
        self._words[self._LINE + _MESSAGES] = self._count
        self._publish()


class Outbox(_End):
    """The sender's end. Another process may open it after this one has ended, but not beside it.

    Args:
        memory: Of the mailboxes.
        notifier: Of this GMI.
        receiver: The id of the other GMI.
    """

    _LINE = _SENDER

    def __init__(self, memory: MailboxMemory, notifier: Notifier, receiver: int) -> None:
        super().__init__(memory, notifier, notifier.own, receiver)
        self._memory = memory
        self._freed = self._read_count() // PIECE_BYTES  # pieces of the stream that were read
        under_way = range(self._freed, -(-self._position // PIECE_BYTES))
        used = {self._words[self._order(number * PIECE_BYTES)] for number in under_way}
        self._free = [piece for piece in range(self._words[_GROWN]) if piece not in used]

    def send(self, parts: Iterable[Tensor]) -> int:
        """Copy a message into the mailbox. It waits only while the mailbox is full.

        Args:
            parts: The message's bytes in order, one at least: uint8 vectors on any device.

        Returns:
            The number of this message, from 1.

        Raises:
            PeerDiedError: If the receiver has ended.
            PeerSilentError: If the mailbox was full and the receiver has read nothing for `hang_s`.
            MachineError: If there is no memory.
            GmiError: If such an error has left the last message half sent.
        """
        self._notifier.check(self._peer, "read a message")
        with self._one_message(self._has_room, "read a message"):
            for part in parts:
                self._put(part)
        return self._count

    def has_read(self, number: int) -> bool:
        """Whether the receiver has read a whole message. Raises `PeerDiedError` if it has not, and has ended."""
        if self._is_read(number):
            return True
        try:
            self._notifier.check(self._peer, "read a message")
        except PeerDiedError:
            if not self._is_read(number):  # what the receiver did before it ended counts
                raise
        return self._is_read(number)

    def await_read(self, number: int) -> None:
        """Wait until the receiver has read a message. Raises `PeerDiedError` and `PeerSilentError`."""
        self._notifier.wait(lambda: self._is_read(number), self._peer, "read a message")

    def _is_read(self, number: int) -> bool:
        return bool(self._words[_READ_MESSAGES] >= number)

    def _has_room(self) -> bool:
        return self._count - self._words[_READ_MESSAGES] < self._memory.most_messages and self._room() > 0

    def _room(self) -> int:
        most: int = self._memory.most_bytes
        return self._read_count() + most - self._position

    def _read_count(self) -> int:
        return min(int(self._words[_READ]), self._position)

    def _put(self, part: Tensor) -> None:
        for memory, chunk in self._chunks(part.numel(), self._room, "read the rest of a message"):
            memory.copy_(part[chunk])  # from a GPU, too, this has been read when it returns

    def _rest_of_piece(self) -> Tensor:
        if self._position % PIECE_BYTES == 0:
            self._words[self._order(self._position)] = self._free_piece()
        return super()._rest_of_piece()

    def _free_piece(self) -> int:
        """A piece that nobody reads any more, or a new one."""
        while self._freed < self._read_count() // PIECE_BYTES:
            self._free.append(self._words[self._order(self._freed * PIECE_BYTES)])
            self._freed += 1
        if not self._free:
            self._memory.grow(*self._pair, grown := self._words[_GROWN])
            self._free.append(grown)
            self._words[_GROWN] = grown + 1
        return self._free.pop()


class Inbox(_End):
    """The receiver's end. Another process may open it after this one has ended, but not beside it.

    Args:
        memory: Of the mailboxes.
        notifier: Of this GMI.
        sender: The id of the other GMI.
    """

    _LINE = _RECEIVER

    def __init__(self, memory: MailboxMemory, notifier: Notifier, sender: int) -> None:
        super().__init__(memory, notifier, sender, notifier.own)

    @contextmanager
    def message(self) -> Iterator[None]:
        """Wait for the next message. The `with` block reads it to its last byte.

        Raises:
            PeerDiedError: If none has been sent, and the sender has ended.
            PeerSilentError: If none has been sent for `hang_s`.
            GmiError: If an error has left the last message half read.
        """
        with self._one_message(self._has_more, "sent a message"):
            yield

    def await_message(self, patience: float, progress: Callable[[], object]) -> None:
        """Wait for the next message without reading it. For arguments and errors see `Notifier.wait_for`."""
        self._notifier.wait_for(self._has_more, (self._peer,), "sent a message", patience, progress)

    def read(self, into: Tensor) -> None:
        """Copy the next bytes of the message into a uint8 vector on any device.

        Raises:
            PeerDiedError: If the sender ended before it had sent them.
            PeerSilentError: If none of them came for `hang_s`.
        """
        for memory, chunk in self._chunks(into.numel(), self._unread, "sent the rest of a message"):
            into[chunk].copy_(memory)  # to a GPU, too, this is done when it returns

    def _has_more(self) -> bool:
        return self._unread() > 0

    def _unread(self) -> int:
        return int(self._words[_WRITTEN]) - self._position
