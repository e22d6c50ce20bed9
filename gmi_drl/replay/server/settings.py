"""The file that says which tables a replay server has (`tables.yaml`)."""

from typing import Annotated, Literal

import torch
from pydantic import Field as Constrained
from pydantic import model_validator

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, known
from gmi_drl.replay.blocks import BLOCK_BYTES
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize, Queue, RateLimiter, SampleToInsertRatio, Stack
from gmi_drl.replay.selectors import SELECTORS, Selector, make_selector
from gmi_drl.replay.storage import Storage, make_storage
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, steps_of_block
from gmi_drl.replay.table import Table

Count = Annotated[int, Constrained(ge=1)]

LARGEST_BLOCK_BYTES = 16 * 2**20
"""Of a storage's blocks, unless 8 of the longest items need more."""


class FieldSettings(FileModel):
    """A field of each step."""

    shape: tuple[Count, ...] = ()
    """Of one step; `[]` for a number."""

    dtype: str = "float32"
    """A type of torch: float32, uint8, int64, bool, …"""

    column: str = "step"
    """Fields of one column lie side by side and are sent together. A sampler may ask for some columns only."""

    def field(self, name: str) -> Field:
        """The field of this name."""
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise UsageError(f"field {name}: there is no type {self.dtype!r} in torch")
        return Field(name, self.shape, dtype, self.column)


class StorageSettings(FileModel):
    """Where steps lie. Several tables may have items of the same steps."""

    fields: dict[str, FieldSettings]
    """Of each step, by name."""

    steps: Count
    """Steps that there is room for."""

    longest: Count = 1
    """Steps of the longest item."""

    placement: Literal["cpu", "shared"] = "cpu"
    """`cpu`, or `shared`: memory that clients of the same host and user map."""

    codec: Literal["none", "zlib", "zlib-differences"] = "none"
    """How complete blocks are compressed: not, by zlib, or by zlib as differences of neighbours (images)."""

    writers: Count = 64
    """Clients that write at once: each has an open block, for which there is room beyond `steps`. With few writers
    blocks are larger, and inserts of large steps faster."""

    def make(self) -> Storage:
        """The storage."""
        signature = Signature([field.field(name) for name, field in self.fields.items()])
        extra = self.writers + 2
        most_bytes = self.steps * signature.step_bytes // (2 * extra)
        block_bytes = min(LARGEST_BLOCK_BYTES, max(BLOCK_BYTES, most_bytes))
        return make_storage(
            signature,
            self.steps + extra * steps_of_block(signature, self.steps, self.longest, block_bytes=block_bytes),
            placement=self.placement,
            longest=self.longest,
            codec=self.codec,
            fewest_blocks=FEWEST_BLOCKS + extra,
            block_bytes=block_bytes if self.codec == "none" else None,
        )


class SelectorSettings(FileModel):
    """What selects items."""

    kind: Annotated[str, known(SELECTORS)]
    """uniform, prioritized, fifo, lifo, max_heap, min_heap, top_k, or one of another package."""

    arguments: tuple[int | float, ...] = ()
    """Of the selector: the exponent of prioritized, the number of top_k."""

    def make(self) -> Selector:
        """The selector."""
        return make_selector(self.kind, *self.arguments)


class LimiterSettings(FileModel):
    """When inserts and samples are allowed."""

    kind: Literal["min_size", "sample_to_insert_ratio", "queue", "stack"]
    """`min_size` allows samples from `size` items on; `sample_to_insert_ratio` holds samples for each insert near
    `ratio`, too; `queue` and `stack` let each of up to `size` items be sampled once."""

    size: Count
    """Items."""

    ratio: float | None = None
    """Samples for each insert, of `sample_to_insert_ratio`."""

    error_buffer: float | None = None
    """How far inserts x ratio - samples may be from size x ratio, of `sample_to_insert_ratio`."""

    @model_validator(mode="after")
    def _check(self) -> "LimiterSettings":
        given = [name for name in ("ratio", "error_buffer") if getattr(self, name) is not None]
        wanted = ["ratio", "error_buffer"] if self.kind == "sample_to_insert_ratio" else []
        if given != wanted:
            raise UsageError(
                f"limiter {self.kind} takes {', '.join(['size', *wanted])}, not {', '.join(['size', *given])}"
            )
        return self

    def make(self) -> RateLimiter:
        """The limiter."""
        if self.ratio is not None and self.error_buffer is not None:
            return SampleToInsertRatio(self.ratio, self.size, self.error_buffer)
        return {"min_size": MinSize, "queue": Queue, "stack": Stack}[self.kind](self.size)


class TableSettings(FileModel):
    """A table."""

    storage: str
    """Where its steps are: a name of `storages`."""

    max_size: Count
    """Items; then the remover evicts."""

    sampler: SelectorSettings = SelectorSettings(kind="uniform")
    """Selects what is sampled."""

    remover: SelectorSettings = SelectorSettings(kind="fifo")
    """Selects what is evicted."""

    limiter: LimiterSettings = LimiterSettings(kind="min_size", size=1)
    """When inserts and samples are allowed."""

    max_times_sampled: Annotated[int, Constrained(ge=0)] = 0
    """An item is deleted after so many samples; 0 means no limit."""

    seed: Annotated[int, Constrained(ge=0)] = 0
    """Of what the selectors draw."""


class ReplayTables(FileModel):
    """The tables of a replay server (`version: 1`)."""

    version: Literal[1]
    """Of the format."""

    storages: dict[str, StorageSettings]
    """Where steps lie, by name."""

    tables: dict[str, TableSettings]
    """By the names that clients use."""

    @model_validator(mode="after")
    def _check(self) -> "ReplayTables":
        if not self.tables:
            raise UsageError("tables: there is none")
        for name, table in self.tables.items():
            if table.storage not in self.storages:
                raise UsageError(f"tables.{name}.storage: there is no storage {table.storage!r}")
        if unused := sorted(set(self.storages) - {table.storage for table in self.tables.values()}):
            raise UsageError(f"storages without a table: {', '.join(unused)}")
        return self

    def make(self) -> list[Table]:
        """The tables, with their memory.

        Raises:
            UsageError: if parts do not go together, with the numbers.
            MachineError: if there is not as much memory.
        """
        storages = {name: settings.make() for name, settings in self.storages.items()}
        return [
            Table(
                name,
                storages[table.storage].signature,
                sampler=table.sampler.make(),
                remover=table.remover.make(),
                max_size=table.max_size,
                limiter=table.limiter.make(),
                max_times_sampled=table.max_times_sampled,
                storage=storages[table.storage],
                seed=table.seed,
            )
            for name, table in self.tables.items()
        ]
