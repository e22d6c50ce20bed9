"""Batches that are selected and collected ahead, in a thread of their own."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.shards.packing import Trajectories

State = TypeVar("State")


class Collected(NamedTuple):
    """A batch.

    Args:
        indices: Of its trajectories, int64 `[n]`, the whole list.
        fields: As `collect` returns them.
        lengths: As `collect` returns them.
    """

    indices: Tensor
    fields: Trajectories
    lengths: Tensor


class Prefetch(Generic[State], Iterator[Collected]):
    """An endless iterator. The thread is exactly `ahead` batches ahead, so that all ranks make the same calls.

    Args:
        ahead: How many.
        make: Makes the next batch.
        state: What the selections depend on, read after each batch.
        device: Where batches lie; on a GPU they are made on a stream of their own.
    """

    def __init__(
        self,
        ahead: int,
        make: Callable[[], Collected],
        state: Callable[[], State],
        device: torch.device,
    ) -> None:
        if ahead < 1:
            raise UsageError(f"1 batch at least is prefetched, not {ahead}")
        self._make, self._state, self._device = make, state, device
        self._changed = threading.Condition()
        self._ready: deque[tuple[Collected, State, torch.cuda.Event | None]] = deque()
        self._allowed, self._made, self._is_closed = ahead, 0, False
        self._failure: BaseException | None = None
        self.taken = state()
        self._thread = threading.Thread(target=self._work, name="shards-prefetch", daemon=True)
        self._thread.start()

    def __next__(self) -> Collected:
        """The next batch, in order."""
        with self._changed:
            while not self._ready:
                if self._failure is not None:
                    raise self._failure
                if self._is_closed:
                    raise StopIteration
                self._changed.wait()
            batch, self.taken, event = self._ready.popleft()
            self._allowed += 1
            self._changed.notify_all()
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            for rows in batch.fields.rows.words.values():  # not given to a later batch while this stream reads them
                rows.record_stream(stream)
        return batch

    def is_own(self) -> bool:
        """Whether the calling thread is that of this object."""
        return threading.current_thread() is self._thread

    def settle(self) -> None:
        """Wait until the thread has made all that it may, or failed: then other calls of all ranks can be made."""
        with self._changed:
            while self._made < self._allowed and self._failure is None:
                self._changed.wait()

    def close(self) -> None:
        """End the thread, when it has made what it may. What was not taken is dropped."""
        self.settle()
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        on_gpu = self._device.type == "cuda"
        own = torch.cuda.Stream(self._device) if on_gpu else None  # type: ignore[no-untyped-call]
        stream = torch.cuda.stream(own) if on_gpu else nullcontext()
        try:
            with stream:
                while self._may_go_on():
                    batch = self._make()
                    event = torch.cuda.current_stream(self._device).record_event() if on_gpu else None
                    with self._changed:
                        self._ready.append((batch, self._state(), event))
                        self._made += 1
                        self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _may_go_on(self) -> bool:
        with self._changed:
            while self._made >= self._allowed and not self._is_closed:
                self._changed.wait()
            return not self._is_closed
