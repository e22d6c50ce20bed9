"""Writes what a served policy sees into a table of a replay server: one more sink of a `Recorder`."""

from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.files.block import Block
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.observations import dtype_of

Rows = dict[str, Tensor]


class TableSink:
    """Appends the steps of each world as a stream, and makes an item of each stretch of them.

    An item begins with a step and has `longest` rows of its storage. Behind the last step of an episode there is a row
    with the observation after it and zeros, where the simulator gives that; items there may be shorter, with that row
    and a step at least. An item has no steps of two episodes. Items have priority 1.

    Args:
        into: `HOST:PORT/TABLE`.
        spec: Of the task.
        num_env: N.
        token: Of the server.

    Attributes:
        longest: Rows of an item.
        names: Of the table's fields.

    Raises:
        UsageError: if the table has other fields than the task gives, with both.
        ServerLostError: if the server cannot be reached.
    """

    def __init__(self, into: str, spec: TaskSpec, num_env: int, token: str | None = None) -> None:
        address, self._table = split_place(into)
        with Client(address, token) as client:
            self._writer = client.writer(self._table)
        try:
            storage = self._writer.storage
            check_fields(into, storage.signature, spec)
        except BaseException:
            self._writer.close()
            raise
        self.longest, self.names = storage.longest, [field.name for field in storage.signature.fields]
        self._rest: list[Rows | None] = [None] * num_env  # steps whose items lack rows that are still to come

    def take(self, block: Block) -> None:
        """Append a block and send it. Waits where the table lets inserts wait, or its storage has no room."""
        block = block.on_host()
        fields = {name: getattr(block, name) for name in self.names}
        ends = (block.terminated | block.truncated) & block.valid
        finals = {(t, world): row for (t, world), row in zip(block.final_at.tolist(), block.final_obs, strict=True)}
        for world in range(block.num_env):
            columns, begin = {name: value[:, world] for name, value in fields.items()}, 0
            for cut in (ends | ~block.valid)[:, world].nonzero().flatten().tolist():
                stop = cut + 1 if block.valid[cut, world] else cut  # what is no transition is left out
                final = finals.get((cut, world)) if block.knows_final_obs else None
                self._append(world, {name: value[begin:stop] for name, value in columns.items()}, final)
                self._rest[world], begin = None, cut + 1
            self._append(world, {name: value[begin:] for name, value in columns.items()}, None)
        self._writer.send()

    def close(self) -> None:
        """Wait until all items are in."""
        self._writer.close()

    def _append(self, world: int, rows: Rows, final: Tensor | None) -> None:
        """Write steps that follow those that are left of a world, and their items."""
        if (rest := self._rest[world]) is not None:
            rows = {name: torch.cat((rest[name], value)) for name, value in rows.items()}
        steps = len(next(iter(rows.values())))
        if not steps:
            return
        written, count = rows, steps
        if final is not None and self.longest > 1:
            written = {name: torch.cat((value, _last(name, value, final))) for name, value in rows.items()}
            count += 1
        first, starts = self._writer.append(written), torch.arange(steps)
        lengths = (count - starts).clamp(max=self.longest)
        made = lengths >= (2 if count > steps else self.longest)
        self._writer.create_items(self._table, first + starts[made], lengths[made])
        left = self.longest - 1
        self._rest[world] = {name: value[max(0, steps - left) :] for name, value in rows.items()} if left else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def split_place(into: str) -> tuple[str, str]:
    """The address and the table of `HOST:PORT/TABLE`.

    Raises:
        UsageError: if it is none.
    """
    address, _, table = into.rpartition("/")
    if not address or not table:
        raise UsageError(f"{into!r} is no table of a replay server: expected HOST:PORT/TABLE")
    return address, table


def check_fields(into: str, signature: Signature, spec: TaskSpec) -> None:
    """Raise unless a table has fields that steps of a task have, `obs` among them.

    Raises:
        UsageError: with both sides.
    """
    seen = spec.observation
    given = (
        Field("obs", seen.shape, dtype_of(seen)),
        Field("action", (spec.action.size,)),
        Field("reward"),
        Field("terminated", (), torch.bool),
        Field("truncated", (), torch.bool),
    )
    known = {field.name: field for field in given}
    for field in signature.fields:
        mine = known.get(field.name)
        if mine is None or (mine.shape, mine.dtype) != (field.shape, field.dtype):
            wanted = ", ".join(f"{one.name} {list(one.shape)} {one.dtype}" for one in given)
            text = f"field {field.name} {list(field.shape)} {field.dtype}, a step of {spec.name} gives {wanted}"
            raise UsageError(f"{into}: the table has {text}: a table has some of these fields")
    if all(field.name != "obs" for field in signature.fields):
        raise UsageError(f"{into}: the table has no field obs")


def _last(name: str, column: Tensor, final: Tensor) -> Tensor:
    """The row behind the last step."""
    return final[None] if name == "obs" else torch.zeros_like(column[:1])
