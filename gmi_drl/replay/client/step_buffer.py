"""Steps that a writer has not sent yet, packed as the server keeps them."""

from collections.abc import Mapping

from torch import Tensor

from gmi_drl.replay.fields import Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.words import bytes_of

UNCOPIED_BYTES = 64 * 1024
"""From so many bytes on steps are sent from where they are, if they lie there as the server keeps them."""


class StepBuffer:
    """Packed rows, which are written and then taken.

    Args:
        signature: Of a step.
        room: Steps that it has room for.
    """

    def __init__(self, signature: Signature, room: int) -> None:
        self._signature, self._room = signature, room
        self._rows = Rows.empty(signature, (room,))
        self._taken = self._end = 0
        self._is_packed = all(len(signature.of_column(column)) == 1 for column in signature.columns) and (
            sum(field.bytes for field in signature.fields) == signature.step_bytes
            and self._rows.arrays.keys() == signature.by_name.keys()
        )

    @property
    def waiting(self) -> int:
        """Steps that were not taken yet."""
        return self._end - self._taken

    @property
    def room(self) -> int:
        """Steps that there is room for, until `clear`."""
        return self._room - self._end

    def clear(self) -> None:
        """Begin anew: what was taken is sent."""
        self._taken = self._end = 0

    def write(self, fields: Mapping[str, Tensor], first: int, count: int) -> None:
        """Pack `count` of the steps `[n, *shape]`, from `first` on. There is room for them."""
        rows, place = self._rows, self._end
        for name, value in fields.items():
            part = value[first : first + count]
            if name in rows.arrays and value.device.type == "cpu":
                rows.arrays[name][place : place + count] = part.detach().numpy()
            else:
                rows.fields[name][place : place + count].copy_(part)
        self._end += count

    def take(self) -> list[memoryview]:
        """The bytes of what waits, by column. They stay as they are until `clear`."""
        part, self._taken = slice(self._taken, self._end), self._end
        return [bytes_of(words[part]) for words in self._rows.words.values()]

    def unpacked(self, fields: Mapping[str, Tensor], first: int, count: int) -> list[memoryview] | None:
        """The bytes of many steps where they are, by column; None if they must be packed, or are few."""
        if not self._is_packed or count * self._signature.step_bytes < UNCOPIED_BYTES:
            return None
        parts = [fields[field.name][first : first + count] for field in self._signature.fields]
        if not all(part.device.type == "cpu" and part.is_contiguous() for part in parts):
            return None
        return [bytes_of(part.detach()) for part in parts]
