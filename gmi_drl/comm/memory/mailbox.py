"""The two ends of a mailbox: messages of bytes from one process to another, in order, by shared memory.

A mailbox is a stream of bytes. The sender counts what it has written, the receiver what it has taken, each in a line of
its own, after every piece and at the end of a message. The stream runs through pieces of memory; which piece is where
in it the sender writes down, and it takes a new one only when none is free, so that a mailbox has as much memory as was
ever under way in it, and no more.

All that an end knows is in its line, so one that is opened where another has ended goes on after its last message. That
is committed by one word, the count of messages: how far the stream was at the end of each of the last two is beside it.
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
_BYTES, _MESSAGES, _ENDS, _GROWN = 0, 1, 2, 4  # in a line; the ends of the last two messages, by their parity
_WRITTEN, _TAKEN, _RECEIVED = _SENDER + _BYTES, _RECEIVER + _BYTES, _RECEIVER + _MESSAGES


class _End:
    """What both ends have. `_position` is how far this one has come in the stream, `_count` in messages."""

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
        told = self._words[self._LINE + _BYTES]
        self._is_half_way = told > self._position  # the last process ended within a message
        if told < self._position:  # or before it had told of its end
            self._publish()

    def _order(self, position: int) -> int:
        """The word that tells in which piece a position of the stream is."""
        return ORDER + position // PIECE_BYTES % self._pieces.shape[0]

    def _place(self) -> Tensor:
        """The memory from where this end is to the end of the piece."""
        piece = self._words[self._order(self._position)]
        if not 0 <= piece < self._pieces.shape[0]:
            raise GmiError("the mailbox from GMI {} to GMI {} is damaged".format(*self._pair))
        return self._pieces[piece, self._position % PIECE_BYTES :]

    def _chunks(self, count: int, available: Callable[[], int], action: str) -> Iterator[tuple[Tensor, slice]]:
        """The next bytes of the stream, as they are available: their memory, and which of `count` they are."""
        done = 0
        while done < count:
            self._notifier.wait(lambda: available() > 0, self._peer, action)
            order_loads()
            place = self._place()
            part = min(place.numel(), count - done, available())
            yield place[:part], slice(done, done + part)
            self._position += part
            done += part
            if self._position % PIECE_BYTES == 0:
                self._publish()

    def _publish(self) -> None:
        """Tell the other how far this end has come."""
        publish(self._words, self._LINE + _BYTES, self._position)
        self._notifier.notify(self._peer)

    def _end_of(self, count: int) -> int:
        """The word that tells where in the stream the message of a number ends."""
        return self._LINE + _ENDS + count % 2

    @contextmanager
    def _whole(self, may_begin: Callable[[], bool], action: str) -> Iterator[None]:
        """One message, begun when it may. Once a byte of it has gone through, the rest must, or there is no next."""
        if self._is_half_way:
            sender, receiver = self._pair
            raise GmiError(f"a message from GMI {sender} to GMI {receiver} was left half-way: there is no next one")
        self._notifier.wait(may_begin, self._peer, action)
        began = self._position
        try:
            yield
        except BaseException:
            self._is_half_way = self._position != began
            raise
        self._count += 1
        self._words[self._end_of(self._count)] = self._position
        self._words[self._LINE + _MESSAGES] = self._count  # only then: what ends here leaves a whole message or none
        self._publish()


class Outbox(_End):
    """The sender's end. Another one may be opened where it has ended, but not beside it.

    Args:
        memory: Of the mailboxes.
        notifier: Of this GMI.
        receiver: The id of the other.
    """

    _LINE = _SENDER

    def __init__(self, memory: MailboxMemory, notifier: Notifier, receiver: int) -> None:
        super().__init__(memory, notifier, notifier.own, receiver)
        self._memory = memory
        self._freed = self._taken() // PIECE_BYTES  # pieces of the stream that are free again
        under_way = range(self._freed, -(-self._position // PIECE_BYTES))
        used = {self._words[self._order(number * PIECE_BYTES)] for number in under_way}
        self._free = [piece for piece in range(self._words[_GROWN]) if piece not in used]

    def send(self, parts: Iterable[Tensor]) -> int:
        """Copy a message into the mailbox, waiting only where too much is under way.

        Args:
            parts: Its bytes in order, one at least: uint8 vectors on any device.

        Returns:
            The number of this message, from 1.

        Raises:
            PeerDiedError: If the receiver has ended.
            PeerSilentError: If it has taken nothing for `hang_s`, in which this waited.
            MachineError: If there is no memory.
            GmiError: If the last one was left half-way by such an error.
        """
        self._notifier.check(self._peer, "taken a message")
        with self._whole(self._has_room, "taken a message"):
            for part in parts:
                self._put(part)
        return self._count

    def has_taken(self, number: int) -> bool:
        """Whether the receiver has taken a message whole; raises `PeerDiedError` if it has not, and has ended."""
        if self._is_taken(number):
            return True
        try:
            self._notifier.check(self._peer, "taken a message")
        except PeerDiedError:
            if not self._is_taken(number):  # what it did before it ended counts
                raise
        return self._is_taken(number)

    def await_taken(self, number: int) -> None:
        """Wait until it has; raises `PeerDiedError` and `PeerSilentError`."""
        self._notifier.wait(lambda: self._is_taken(number), self._peer, "taken a message")

    def _is_taken(self, number: int) -> bool:
        return bool(self._words[_RECEIVED] >= number)

    def _has_room(self) -> bool:
        return self._count - self._words[_RECEIVED] < self._memory.most_messages and self._room() > 0

    def _room(self) -> int:
        most: int = self._memory.most_bytes
        return self._taken() + most - self._position

    def _taken(self) -> int:
        return min(int(self._words[_TAKEN]), self._position)

    def _put(self, part: Tensor) -> None:
        for memory, chunk in self._chunks(part.numel(), self._room, "taken the rest of a message"):
            memory.copy_(part[chunk])  # from a GPU, too, this has been read when it returns

    def _place(self) -> Tensor:
        if self._position % PIECE_BYTES == 0:
            self._words[self._order(self._position)] = self._free_piece()
        return super()._place()

    def _free_piece(self) -> int:
        """A piece that nobody reads any more, or a new one."""
        while self._freed < self._taken() // PIECE_BYTES:
            self._free.append(self._words[self._order(self._freed * PIECE_BYTES)])
            self._freed += 1
        if not self._free:
            self._memory.grow(*self._pair, grown := self._words[_GROWN])
            self._free.append(grown)
            self._words[_GROWN] = grown + 1
        return self._free.pop()


class Inbox(_End):
    """The receiver's end. Another one may be opened where it has ended, but not beside it.

    Args:
        memory: Of the mailboxes.
        notifier: Of this GMI.
        sender: The id of the other.
    """

    _LINE = _RECEIVER

    def __init__(self, memory: MailboxMemory, notifier: Notifier, sender: int) -> None:
        super().__init__(memory, notifier, sender, notifier.own)

    @contextmanager
    def message(self) -> Iterator[None]:
        """Wait for the next message, which the block takes to its last byte.

        Raises:
            PeerDiedError: If none has been sent, and the sender has ended.
            PeerSilentError: If none has been sent for `hang_s`.
            GmiError: If the last one was left half-way by an error.
        """
        with self._whole(self._has_more, "sent a message"):
            yield

    def await_message(self, patience: float, news: Callable[[], object]) -> None:
        """Wait for the next message and leave it there. For arguments and errors see `Notifier.wait_for`."""
        self._notifier.wait_for(self._has_more, (self._peer,), "sent a message", patience, news)

    def take(self, into: Tensor) -> None:
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
