"""Rows of a checkpoint in a file of safetensors, written piece by piece: a copy of all would need as much memory."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

PIECE_BYTES = 16 * 1024 * 1024
"""Bytes that are read at once, about."""


class RowsInPieces(Mapping[str, Tensor]):
    """Rows by column, int64 `[steps, words]`, which are read when they are asked for."""

    @abstractmethod
    def shape(self, column: str) -> tuple[int, int]:
        """Steps and words."""

    @abstractmethod
    def pieces(self, column: str) -> Iterator[Tensor]:
        """The rows of a column, one piece after the other."""


def write_rows(path: Path, rows: Mapping[str, Tensor]) -> None:
    """Write rows, int64 `[steps, words]` by column.

    Raises:
        OSError: if they cannot be written.
    """
    header, end = {}, 0
    for column in rows:
        shape = rows.shape(column) if isinstance(rows, RowsInPieces) else tuple(rows[column].shape)
        begin, end = end, end + 8 * shape[0] * shape[1]
        header[column] = {"dtype": "I64", "shape": shape, "data_offsets": (begin, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for column in rows:
            pieces: Iterable[Tensor] = rows.pieces(column) if isinstance(rows, RowsInPieces) else (rows[column],)
            for piece in pieces:
                file.write(piece.contiguous().cpu().numpy().data)
