"""The slots of a client whose server is on another host: each has them in memory, and sends what it writes there.

READY has the sizes of the server's stream, as text. HALF has a member of the client's ring, whether numbers follow, and
the line of words that the sender has of this slot; the numbers are those of a request or of an answer. So a request or
an answer is a message and its data, and all that ends on one host know of each other is known to those on two.
"""

import struct
import time

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection
from gmi_drl.comm.streams.slots import ANSWER_NS, ANSWERED, LINE_WORDS, POSTED, SLOT_WORDS, Slots
from gmi_drl.errors import GmiError

READY, HALF = range(FIRST_OTHER_KIND, FIRST_OTHER_KIND + 2)

_HALF = struct.Struct(f"<2q{LINE_WORDS}q")


class SlotLink:
    """One end of it.

    Args:
        connection: To the other end.
        memory: Of the slots on this host.
        slots: Those of the client, by member.
        is_client: Whether this end writes requests; else answers.

    Attributes:
        ready: The sizes that the server has sent; empty before.
    """

    def __init__(self, connection: FramedConnection, memory: Slots, slots: range, *, is_client: bool) -> None:
        self.connection, self.ready = connection, ""
        self._memory, self._slots, self._is_client = memory, slots, is_client
        counter, theirs = (POSTED, ANSWERED) if is_client else (ANSWERED, POSTED)
        self._own, self._theirs = (counter // LINE_WORDS * LINE_WORDS, theirs // LINE_WORDS * LINE_WORDS)
        self._counter, self._their_counter = counter - self._own, theirs - self._theirs
        self._sent = [[0] * LINE_WORDS for _ in slots]
        self._arriving: tuple[int, tuple[int, ...]] | None = None  # the words of a slot whose numbers are on their way

    def send(self) -> None:
        """Send what this end has written since the last call. The numbers must not change until they are answered."""
        for member, slot in enumerate(self._slots):
            start = slot * SLOT_WORDS + self._own
            line, sent = list(self._memory.words[start : start + LINE_WORDS]), self._sent[member]
            if line == sent:
                continue
            has_numbers = line[self._counter] != sent[self._counter]
            self._sent[member] = line
            self.connection.send_frame(HALF, _HALF.pack(member, has_numbers, *line))
            if has_numbers:
                self.connection.send_data(self._memory.half(slot, of_request=self._is_client))

    def receive(self) -> None:
        """Take over what has arrived from the other end: numbers first, and then the words that tell of them.

        Raises:
            GmiError: If something else has arrived.
        """
        for kind, payload in self.connection.read():
            self._take_over()
            if kind == READY:
                self.ready = payload.decode()
            elif kind == HALF and len(payload) == _HALF.size:
                self._begin(*_HALF.unpack(payload))
            else:
                raise GmiError(f"a frame of kind {kind} and {len(payload)} bytes came, which no end of a stream sends")
        self._take_over()

    def _begin(self, member: int, has_numbers: int, *line: int) -> None:
        if not 0 <= member < len(self._slots) or self._arriving is not None:
            raise GmiError(f"words of member {member} came where none could come")
        self._arriving = self._slots[member], line
        if has_numbers:
            self.connection.receive_data(self._memory.half(self._slots[member], of_request=not self._is_client))

    def _take_over(self) -> None:
        """Write the words of a slot whose numbers have arrived, the counter last."""
        if self._arriving is None or self.connection.is_receiving:
            return
        (slot, line), self._arriving = self._arriving, None
        words, start = self._memory.words, slot * SLOT_WORDS + self._theirs
        for number, word in enumerate(line):
            if number != self._their_counter:
                words[start + number] = word
        if self._is_client:
            words[slot * SLOT_WORDS + ANSWER_NS] = time.monotonic_ns()  # clocks of two hosts differ
        words[start + self._their_counter] = line[self._their_counter]
