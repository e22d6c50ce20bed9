"""Versioned parameters in shared memory: one process writes, many read the latest version, and the writer never waits.

Two buffers are used in turn. The writer first stores in a word of the buffer which publication it is about to write
there, then writes, and then counts the publication. A reader copies the buffer of the last counted publication and then
checks that buffer's word. If a later publication was begun there, the copy may be torn, and the reader copies again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from torch import Tensor

from gmi_drl.comm.memory.fence import fence, order_loads, publish
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.errors import GmiError, UsageError

BUFFERS = 2
WORDS = 1 + 2 * BUFFERS

_COUNT, _BEGUN, _VERSION = 0, 1, 1 + BUFFERS  # the last two are for each buffer
_ALIGNED = 64
_MOST_READS = 10_000


def packed_bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes of packed tensors, each in cache lines of its own: `ChannelSizes.parameter_bytes`."""
    return sum(_in_lines(tensor) for tensor in tensors)


class Parameters:
    """The parameters of a run and whatever travels with them, such as the normaliser's statistics.

    Args:
        words: `WORDS` of shared memory, zeroed at first.
        buffers: `BUFFERS` vectors of shared memory, uint8, each as long as the packed parameters.
        writer: The id of the GMI that publishes.
        readers: The ids of the others.
        notifier: Of this GMI.
        patience: How many times `hang_s` this GMI waits for a publication.
        progress: A wait starts again whenever this value changes.
    """

    def __init__(
        self,
        words: memoryview,
        buffers: Sequence[Tensor],
        writer: int,
        readers: Sequence[int],
        notifier: Notifier,
        patience: int,
        progress: Callable[[], object],
    ) -> None:
        self._words, self._buffers, self._writer, self._readers = words, buffers, writer, readers
        self._notifier, self._patience, self._progress = notifier, patience, progress

    def publish(self, version: int, tensors: Sequence[Tensor]) -> None:
        """Publish new parameters to all readers.

        Args:
            version: The last version plus 1; the first may be any from 0.
            tensors: Any number, of any shape and dtype, the same each time, on any device; those on a GPU are waited
                for.

        Raises:
            UsageError: If another GMI publishes, the version is another one, or the tensors do not fit the buffers
                exactly.
        """
        newest = self.newest_version()
        if version != (version if newest is None else newest + 1) or version < 0:
            raise UsageError(f"version {version} was published after {newest}: versions must increase by 1")
        self.pass_on(version, tensors)

    def pass_on(self, version: int, tensors: Sequence[Tensor]) -> None:
        """Publish any later version, of one that publishes elsewhere. For arguments and errors see `publish`."""
        if self._notifier.own != self._writer:
            raise UsageError(f"GMI {self._writer} publishes the parameters, not GMI {self._notifier.own}")
        count = self._words[_COUNT] + 1
        buffer = count % BUFFERS
        self._words[_BEGUN + buffer] = count
        fence()
        for part, tensor in parts_of(self._buffers[buffer], tensors):
            part.copy_(tensor)
        self._words[_VERSION + buffer] = version
        publish(self._words, _COUNT, count)
        for peer in self._readers:
            self._notifier.notify(peer)

    def newest_version(self) -> int | None:
        """The version that was published last; None before the first."""
        count = self._words[_COUNT]
        order_loads()
        return self._words[_VERSION + count % BUFFERS] if count else None

    def published(self) -> int:
        """The number of publications so far."""
        return int(self._words[_COUNT])

    def await_first(self) -> None:
        """Wait for the first publication, with the errors of `await_published`."""
        self.await_published(1)

    def await_published(self, count: int) -> None:
        """Wait until the number of publications is at least `count`.

        Raises:
            PeerDiedError: If the writer has ended before.
            PeerSilentError: If it has not published them within the patience, during which `progress` did not change.
        """
        self._await(lambda: self.published() >= count, "published parameters")

    def await_version(self, version: int, is_far_ahead: Callable[[], bool] = lambda: False) -> bool:
        """Wait for a version or a later one, with the errors of `await_published`.

        Args:
            version: To wait for.
            is_far_ahead: Whether trainers are known to be more than one version behind it.

        Returns:
            Whether it is published: False as soon as trainers are known to be more than one version behind it.
        """

        def is_published() -> bool:
            newest = self.newest_version()
            return newest is not None and newest >= version

        action = f"published version {version} of the parameters"
        self._await(lambda: is_published() or is_far_ahead(), action)
        return is_published()

    def read_into(self, tensors: Sequence[Tensor]) -> int:
        """Copy the newest parameters. This waits only for the first publication, with the errors of `await_published`.

        Args:
            tensors: Like those that were published, on any device.

        Returns:
            Their version.

        Raises:
            UsageError: If the tensors do not fit the buffers exactly.
        """
        self.await_first()
        for _ in range(_MOST_READS):
            count = self._words[_COUNT]
            buffer = count % BUFFERS
            order_loads()
            version: int = self._words[_VERSION + buffer]
            for part, tensor in parts_of(self._buffers[buffer], tensors):
                tensor.copy_(part)
            order_loads()
            if self._words[_BEGUN + buffer] == count:
                return version
        raise GmiError(f"parameters were published so fast that none of {_MOST_READS} copies of them was whole")

    def _await(self, is_done: Callable[[], bool], action: str) -> None:
        self._notifier.wait_for(is_done, (self._writer,), action, self._patience, self._progress)


def parts_of(memory: Tensor, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each tensor with its part of a uint8 memory in which all of them are packed.

    Raises:
        UsageError: If the tensors do not fit the memory exactly.
    """
    if (wanted := packed_bytes(tensors)) != memory.numel():
        raise UsageError(f"these parameters take {wanted} bytes, their buffers have {memory.numel()}")
    start = 0
    for tensor in tensors:
        part = memory[start : start + tensor.numel() * tensor.element_size()]
        start += _in_lines(tensor)
        yield part.view(tensor.dtype).view(tensor.shape), tensor.detach()


def _in_lines(tensor: Tensor) -> int:
    return -(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED
