"""Episodes in the order in which they come, packed, on the disk: how many there are is known when all have come."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.fields import Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage.base import Storage, steps_of_block


class Spool:
    """A file for each column, in which rows follow each other.

    Args:
        signature: Of a row.
        folder: For the files, which `close` removes.

    Attributes:
        rows: Of each episode so far.
    """

    def __init__(self, signature: Signature, folder: Path) -> None:
        self.signature, self.rows = signature, list[int]()
        self._paths = {column: folder / f"spool-{number}" for number, column in enumerate(signature.columns)}
        with ExitStack() as files:
            self._files = {column: files.enter_context(path.open("wb")) for column, path in self._paths.items()}
            self._closing = files.pop_all()

    def add(self, fields: Mapping[str, Tensor], following: Mapping[str, Tensor]) -> None:
        """Append the rows of an episode; where it is known a further one with what follows, and zeros.

        Raises:
            OSError: if they cannot be written.
        """
        steps = len(next(iter(fields.values())))
        rows = Rows.empty(self.signature, (steps + bool(following),))
        for words in rows.words.values():
            words.zero_()
        for name, value in fields.items():
            rows.fields[name][:steps] = value
        for name, value in following.items():
            rows.fields[name][steps] = value
        for column, words in rows.words.items():
            self._files[column].write(words.numpy().data)
        self.rows.append(steps + bool(following))

    def move_to(self, storage: Storage, first: Tensor) -> None:
        """Copy the episodes to places of a storage, int64 `[n]`.

        Raises:
            OSError: if they cannot be read.
        """
        for column, path in self._paths.items():
            self._files[column].flush()
            words, begin = storage.rows.words[column], 0
            spooled = np.memmap(path, np.int64, "c", shape=(sum(self.rows), words.shape[1]))
            for place, count in zip(first.tolist(), self.rows, strict=True):
                words[place : place + count] = torch.from_numpy(spooled[begin : begin + count])
                begin += count

    def close(self) -> None:
        """Remove the files."""
        self._closing.close()
        for path in self._paths.values():
            path.unlink(missing_ok=True)


def laid_out(rows: list[int], signature: Signature) -> tuple[int, Tensor]:
    """How many steps a storage is to have for episodes of so many rows, and where each begins, int64 `[n]`.

    None lies in two blocks, so that it can be an item.
    """
    longest, steps = max(rows), sum(rows)
    while True:
        size = steps_of_block(signature, steps, longest)
        first, end = [], 0
        for count in rows:
            if end % size + count > size:
                end += size - end % size
            first.append(end)
            end += count
        if end <= -(-steps // size) * size:
            return steps, torch.tensor(first)
        steps = end
