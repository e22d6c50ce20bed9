"""Experience goes into files: a sink that writes shards behind the back of who plays."""

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
"""Blocks that wait while one is written: more memory would not make the disk faster."""

WRITE_S = 100.0
"""Until a disk must have taken a shard."""


class ShardFiles:
    """The sink of one GMI: every block becomes a shard, written by a thread of its own, each whole or not there.

    Blocks that the disk is too slow for make `take` wait. At most three blocks are in memory, one of them twice.

    Args:
        folder: Where to.
        gmi_id: Whose: `gmi-GMI-NUMBER.safetensors`.
        tell: Told of every shard that is kept for good, in order, by whoever calls `take` and `close`.
    """

    def __init__(self, folder: Path, gmi_id: int, tell: Callable[[Shard], None]) -> None:
        self._folder, self._gmi_id, self._tell = folder, gmi_id, tell
        self._blocks: Queue[Block | None] = Queue(WAITING)
        self._written: SimpleQueue[Shard] = SimpleQueue()
        self._failure: Exception | None = None
        self._thread = Thread(target=self._work, name="experience", daemon=True)
        self._thread.start()

    def take(self, block: Block) -> None:
        """Copy a block and have it written.

        Raises:
            MachineError: if the disk has not taken one of those before.
        """
        self._hand_over(block.on_host())

    def close(self) -> None:
        """Wait until all is written.

        Raises:
            MachineError: if the disk does not take it.
        """
        self._hand_over(None)
        deadline = time.monotonic() + (WAITING + 1) * WRITE_S
        while self._thread.is_alive():
            self._thread.join(0.2)
            self._look(deadline)
        self._look(deadline)

    def _hand_over(self, block: Block | None) -> None:
        deadline = time.monotonic() + WRITE_S
        while True:
            self._look(deadline)
            try:
                self._blocks.put(block, timeout=0.2)
                return
            except Full:
                pass

    def _look(self, deadline: float) -> None:
        """Tell of what is written; raise what went wrong."""
        while not self._written.empty():
            self._tell(self._written.get())
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
        except Exception as error:  # for the one who plays
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
