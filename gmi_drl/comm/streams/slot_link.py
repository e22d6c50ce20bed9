"""The slots of a client whose server is on another host: each has them in memory, and sends what it writes there.

READY has the sizes of the server's stream, as text. HALF has a member of the client's ring, where the numbers of a
request or an answer are, and the line of words that the sender has of this slot. So all that ends on one host know of
each other is known to those on two.
"""

import struct
import time
from dataclasses import dataclass
from typing import Self

from gmi_drl.comm.links.framing import DATA, FIRST_OTHER_KIND, FramedConnection
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.streams.slots import ANSWER_NS, ANSWERED, LINE_WORDS, POSTED, PROCESSES, SLOT_WORDS, Slots
from gmi_drl.errors import GmiError

READY, HALF = range(FIRST_OTHER_KIND, FIRST_OTHER_KIND + 2)

WITHIN_BYTES = 16 * 1024
"""The most bytes of numbers that are sent within the message: that takes less calls, and one copy more."""

_TURN_BYTES = 2**20  # that are read of one connection before the others have their turn

NONE, WITHIN, BEHIND = range(3)
"""Where the numbers are: there are none, in the message, or in data behind it."""

_HEAD = struct.Struct("<2q")  # the member, and where its numbers are; then the line, and numbers within
_WORD = struct.Struct("<q")
_WORD_BYTES = _WORD.size


@dataclass(frozen=True)
class Half:
    """What one end writes of a slot: its line of words, and the numbers of a request or an answer."""

    line: memoryview
    numbers: memoryview


class SlotLink:
    """One end of it. Its socket is asked to take at once what all slots may have, so that who writes them can go on.

    What lies in the slots at the beginning counts as sent, but for requests that are open.

    Args:
        connection: To the other end.
        memory: Of the slots on this host.
        slots: Those of the client, by member.
        other: The GMI at the other end.
        is_client: Whether this end writes requests; else answers.

    Attributes:
        ready: The sizes that the server has sent; empty before.
    """

    def __init__(
        self, connection: FramedConnection, memory: Slots, slots: range, other: int, *, is_client: bool
    ) -> None:
        self.connection, self.other, self.ready = connection, other, ""
        self._memory, self._slots, self._is_client = memory, slots, is_client
        self._own = [_half(memory, slot, of_request=is_client) for slot in slots]
        self._theirs = [_half(memory, slot, of_request=not is_client) for slot in slots]
        word = (POSTED if is_client else ANSWERED) % LINE_WORDS
        self._counter = slice(word * _WORD_BYTES, (word + 1) * _WORD_BYTES)
        self._sent = [
            bytes(LINE_BYTES if self._is_open(slot) else half.line) for slot, half in zip(slots, self._own, strict=True)
        ]
        connection.ask_for_room(sum(_HEAD.size + LINE_BYTES + len(half.numbers) for half in self._own))
        self._arriving: tuple[int, bytes] | None = None  # a member's line, whose numbers are on their way

    def over(self, connection: FramedConnection) -> Self:
        """The same end of another connection."""
        return type(self)(connection, self._memory, self._slots, self.other, is_client=self._is_client)

    def send(self) -> None:
        """Send what this end has written since the last call. The numbers must not change until they are answered."""
        for member, half in enumerate(self._own):
            line, sent = bytes(half.line), self._sent[member]
            if line == sent:
                continue
            self._sent[member] = line
            if line[self._counter] == sent[self._counter]:
                self.connection.send_together([(HALF, [_HEAD.pack(member, NONE) + line])])
            elif len(half.numbers) <= WITHIN_BYTES:
                self.connection.send_together([(HALF, [_HEAD.pack(member, WITHIN) + line + half.numbers])])
            else:
                self.connection.send_together([(HALF, [_HEAD.pack(member, BEHIND) + line]), (DATA, [half.numbers])])

    def receive(self) -> None:
        """Take over what has arrived from the other end: numbers first, and then the words that tell of them.

        Raises:
            GmiError: If something else has arrived.
        """
        try:
            self._receive()
        except GmiError as error:
            raise GmiError(f"GMI {self.other} on another host: {error}") from error

    def _receive(self) -> None:
        for kind, payload in self.connection.read(_TURN_BYTES):
            self._take_over()
            if kind == READY and self._is_client:
                self.ready = payload.decode()
            elif kind == HALF and len(payload) >= _HEAD.size + LINE_BYTES:
                self._begin(payload, *_HEAD.unpack_from(payload))
            else:
                raise GmiError(f"a frame of kind {kind} and {len(payload)} bytes came, which no end of a stream sends")
        self._take_over()

    def _begin(self, payload: bytes, member: int, how: int) -> None:
        if not 0 <= member < len(self._slots) or self._arriving is not None:
            raise GmiError(f"words of member {member} came where none could come")
        numbers, start = self._theirs[member].numbers, _HEAD.size + LINE_BYTES
        if len(payload) - start != (len(numbers) if how == WITHIN else 0):
            raise GmiError(f"{len(payload)} bytes came, which no end of a stream sends")
        if not self._is_client and (process := _process_of(payload)) not in (0, 1):
            raise GmiError(f"words of its process {process} came: each process connects anew, as the first")
        self._arriving = member, payload[_HEAD.size : start]
        if how == NONE and not self._is_client:
            self._note_answered(member, payload)
        elif how == WITHIN:
            numbers[:] = payload[start:]
        elif how == BEHIND:
            self.connection.receive_data(numbers)
        self._take_over()

    def _note_answered(self, member: int, payload: bytes) -> None:
        """A request that comes without its numbers was answered, by this server or its predecessor.

        The slots of a successor are new, so the count alone would look like an open request.
        """
        words, first = self._memory.words, self._slots[member] * SLOT_WORDS
        posted = int(_WORD.unpack_from(payload, _HEAD.size + POSTED * _WORD_BYTES)[0])
        if posted != words[first + POSTED]:
            words[first + ANSWERED] = posted
            self._sent[member] = bytes(self._own[member].line)  # the client has the answer

    def _is_open(self, slot: int) -> bool:
        words, first = self._memory.words, slot * SLOT_WORDS
        return bool(words[first + POSTED] != words[first + ANSWERED])

    def _take_over(self) -> None:
        """Write the words of a slot whose numbers have arrived. Only this thread reads them."""
        if self._arriving is None or self.connection.is_receiving:
            return
        (member, line), self._arriving = self._arriving, None
        self._theirs[member].line[:] = line
        if self._is_client:
            at_ns = time.monotonic_ns()  # clocks of two hosts differ
            self._memory.words[self._slots[member] * SLOT_WORDS + ANSWER_NS] = at_ns


def _process_of(payload: bytes) -> int:
    """Which process of the client a message says it is from; 0 for slots other than its first."""
    return int(_WORD.unpack_from(payload, _HEAD.size + PROCESSES * _WORD_BYTES)[0])


def _half(memory: Slots, slot: int, *, of_request: bool) -> Half:
    start = slot * SLOT_WORDS * _WORD_BYTES + (0 if of_request else LINE_BYTES)
    return Half(memory.words.cast("B")[start : start + LINE_BYTES], memory.half(slot, of_request=of_request))
