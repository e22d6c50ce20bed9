"""Trajectories of one shard in this host's memory, copied to the places where a head collects them."""

from torch import Tensor

from gmi_drl.replay.indices import Integers
from gmi_drl.replay.shards.packing import Packing, ReadableShard, RowLayout, Trajectories
from gmi_drl.replay.shards.requests import Owned


class ShardReader:
    """Reads a shard.

    Args:
        shard: This rank's, or one of `near.py`.
        packing: Of its rows.
    """

    def __init__(self, shard: ReadableShard, packing: Packing) -> None:
        self._shard, self._packing = shard, packing

    def rows_of(self, column: str) -> Tensor:
        """The whole trajectories, `[trajectories, words]`. Each has room for the longest one (`is_padded`)."""
        return self._shard.storage.rows.words[column].view(self._shard.trajectories, -1)

    def put(
        self,
        layout: RowLayout,
        part: Owned,
        target: Trajectories,
        lengths: Integers,
        *,
        are_large: bool,
        packed: Tensor | None = None,
    ) -> None:
        """Put a part of what is collected into its places.

        Args:
            layout: Of the rows.
            part: Of this shard.
            target: Is written.
            lengths: `[n]`, is written.
            are_large: Whether these are whole trajectories that are copied row by row: one copy instead of two.
            packed: The rows, if they are packed already.
        """
        if not len(part.local):
            return
        if part.places is None:
            lengths[:] = part.steps(layout.steps)
            self._packing.gather(part, lengths, target.rows.words)
        elif are_large:
            self._put_rows(part, part.places, target, lengths)
        else:
            rows = self._packing.pack(layout, part, "to be put") if packed is None else packed
            self._packing.unpack(layout, rows, part.places, target, lengths)

    def _put_rows(self, part: Owned, places: Integers, target: Trajectories, lengths: Integers) -> None:
        """Row by row: large rows take longer to copy than to name."""
        lengths[places] = part.lengths
        pairs = list(zip(places.tolist(), part.local.tolist(), strict=True))
        for column, words in target.arrays.items():
            rows, into = self.rows_of(column).numpy(), words.reshape(len(lengths), -1)
            for place, index in pairs:
                into[place] = rows[index]
