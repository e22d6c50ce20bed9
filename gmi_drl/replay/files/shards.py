"""Writes experience to files: a sink whose thread writes shards while serving goes on."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from queue import Full, Queue, SimpleQueue
from threading import Thread

from gmi_drl.errors import MachineError
from gmi_drl.files import write_atomically
from gmi_drl.replay.files.block import Block
from gmi_drl.replay.files.index import SCHEMA, Shard

WAITING = 1
"""Blocks that may wait while one is written. More would need memory and not make the disk faster."""

WRITE_S = 100.0
"""Deadline for writing a shard, in seconds."""


class ShardFiles:
    """The sink of one GMI. A thread writes every block as a shard, atomically.

    If the disk is too slow, `take` waits. At most three blocks are in memory, one of them twice.

    Args:
        folder: For the shards.
        gmi_id: Of the GMI, for their names, `gmi-GMI-NUMBER.safetensors`.
        on_shard: Called with every shard that is written, in order, within `take` and `close`.
    """

    def __init__(self, folder: Path, gmi_id: int, on_shard: Callable[[Shard], None]) -> None:
        self._folder, self._gmi_id, self._on_shard = folder, gmi_id, on_shard
        self._blocks: Queue[Block | None] = Queue(WAITING)
        self._written: SimpleQueue[Shard] = SimpleQueue()
        self._failure: Exception | None = None
        self._thread = Thread(target=self._work, name="experience", daemon=True)
        self._thread.start()

    def take(self, block: Block) -> None:
        """Copy a block and queue it.

        Raises:
            MachineError: if an earlier block could not be written.
        """
        self._queue(block.on_host())

    def close(self) -> None:
        """Wait until all is written.

        Raises:
            MachineError: if it cannot be written.
        """
        self._queue(None)
        deadline = time.monotonic() + (WAITING + 1) * WRITE_S
        while self._thread.is_alive():
            self._thread.join(0.2)
            self._check(deadline)
        self._check(deadline)

    def _queue(self, block: Block | None) -> None:
        deadline = time.monotonic() + WRITE_S
        while True:
            self._check(deadline)
            try:
                self._blocks.put(block, timeout=0.2)
                return
            except Full:
                pass

    def _check(self, deadline: float) -> None:
        """Report the shards that are written, and raise the error of the thread or of a passed deadline."""
        while not self._written.empty():
            self._on_shard(self._written.get())
        if self._failure is not None:
            raise self._failure
        if time.monotonic() > deadline:
            raise MachineError(f"{self._folder}: the disk has taken no shard of the experience for {WRITE_S:.0f} s")

    def _work(self) -> None:
        number = 0
        try:
            while (block := self._blocks.get()) is not None:
                self._written.put(self._write(block, f"gmi-{self._gmi_id}-{number:06d}.safetensors"))
                number += 1
        except OSError as error:
            self._failure = MachineError(f"{self._folder}: the experience cannot be written: {error.strerror}")
        except Exception as error:  # raised in the thread that serves
            self._failure = error

    def _write(self, block: Block, name: str) -> Shard:
        from safetensors.torch import save

        data = save(block.tensors(), metadata={"schema": SCHEMA})
        write_atomically(self._folder / name, data)
        return Shard(
            file=name,
            steps=block.steps,
            transitions=int(block.valid.sum()),
            ends=len(block.final_obs),
            knows_final_obs=block.knows_final_obs,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
