"""The parameters of a host without trainers, in a memory that its policy workers share: one receives them.

A thread of the receiver (`receiver.py`) publishes there what comes from the trainers' host, as a trainer does on its
own. So parameters go over the wire once for each host. A receiver that has died may be started again: its successor
goes on in the same memory.
"""

import json
import mmap
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.sealed import Sealed
from gmi_drl.comm.memory.segment import in_pages
from gmi_drl.comm.parameters.shared_memory import BUFFERS, WORDS, Parameters
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError

_SEALED = Sealed(b"gmi-par1", "the parameters of this host")
_ALIVE = WORDS  # the word after those of `Parameters`: keepalives of trainers that have arrived
_TOLD = WORDS + 1  # the newest version by the last answer of the trainers' host
_ANSWERS = WORDS + 2  # how many such answers have come
_PROCESSES = WORDS + 3  # which process of the receiver this is, from 1
_LEFT = WORDS + 4  # from here on for each reader: whether it has left; then for each GMI: how many answers it waits for


class _FromReceiver(Parameters):
    """Those of a receiver that may be started again: its successor is waited for, `hang_s` at most."""

    _seen: int | None = None  # which process of the receiver is watched; None: as that of its first wait

    def _await(self, is_done: Callable[[], bool], action: str) -> None:
        while not is_done():
            self._await_once(lambda: is_done() or self._words[_PROCESSES] != self._seen, action)
            if self._words[_PROCESSES] != self._seen:
                self._seen = self._words[_PROCESSES]
                self._notifier.watch_successor(self._writer)

    def _await_once(self, is_done: Callable[[], bool], action: str) -> None:
        try:
            super()._await(is_done, action)
        except PeerDiedError as error:
            hang_s = self._notifier.hang_s
            if not self._notifier.wait_at_most(is_done, hang_s):
                raise PeerSilentError(f"{error}, and no successor has come for {hang_s:g} s (hang_s)") from None


@dataclass(frozen=True)
class HostSizes:
    """What the policy workers of a host share.

    Args:
        nbytes: Of the packed parameters.
        receiver: The id of the one that receives them.
        readers: The ids of the others.
    """

    nbytes: int
    receiver: int
    readers: tuple[int, ...]


class HostParameters:
    """The parameters of this host, as a policy worker reads them; see `channels.ParameterReader`.

    Args:
        memory: Of `memory.segment.create_empty`, which the receiver makes; the caller closes it.
        mailboxes: Of the GMIs of this host.
        own: The id of this GMI.
        sizes: The same for all of them.
        hang_s: Seconds after which a living receiver counts as silent.
        patience: How many times `hang_s` a version is waited for.
        predecessors: How many processes were this GMI before, and have ended.
        awaits_successors: Whether an ended receiver may be started again.

    Attributes:
        parameters: The newest ones.
        lost: Of the receiver: the error by which its connection was lost.

    Raises:
        UsageError: If the memory was made for other sizes.
        MachineError: If there is not enough memory.
        PeerDiedError: If the receiver has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """

    def __init__(
        self,
        memory: int,
        mailboxes: Mailboxes,
        own: int,
        sizes: HostSizes,
        hang_s: float,
        patience: int,
        *,
        predecessors: int = 0,
        awaits_successors: bool = False,
    ) -> None:
        self.own, self.sizes = own, sizes
        self.lost: GmiError | None = None
        self._notifier = notifier = Notifier(mailboxes, MailboxMemory(mailboxes.memory), own, hang_s)
        text = json.dumps(asdict(sizes))
        start = _SEALED.header_bytes(text)
        everyone = (sizes.receiver, *sizes.readers)
        wanted = _LEFT + len(sizes.readers)
        first, each = start + in_pages(8 * (wanted + len(everyone))), in_pages(sizes.nbytes)
        if own == sizes.receiver and not _SEALED.is_made(memory):
            _SEALED.make(memory, first + BUFFERS * each, text, "use a smaller network")
        else:
            notifier.wait(lambda: _SEALED.is_made(memory), sizes.receiver, "made the memory of the parameters")
            if _SEALED.description(memory) != text:
                raise UsageError(f"the parameters of this host have other sizes than this GMI's: {text}")
        mapped = mmap.mmap(memory, first + BUFFERS * each, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._words = memoryview(mapped)[start:first].cast("q")
        self._wanted = self._words[wanted : wanted + len(everyone)]
        self._own = everyone.index(own)
        buffers = [
            torch.frombuffer(mapped, dtype=torch.uint8, count=sizes.nbytes, offset=first + number * each)
            for number in range(BUFFERS)
        ]
        if own == sizes.receiver:
            self._words[_PROCESSES] = predecessors + 1
            self.wake_all()
        made = _FromReceiver if awaits_successors and own != sizes.receiver else Parameters
        self.parameters = made(
            self._words, buffers, sizes.receiver, sizes.readers, notifier, patience, lambda: self.keepalives
        )

    def await_version(self, version: int) -> bool:
        """Wait for a version, with the errors of `Parameters.await_version`.

        What the trainers' host is asked from now on decides how far trainers are.

        Returns:
            Whether it is published: False as soon as trainers are known to be more than one version behind it.
        """
        self.parameters.await_first()
        self._wanted[self._own] = enough = self._words[_ANSWERS] + 2  # the first may tell what was the newest before

        def is_far_ahead() -> bool:
            answers = self._words[_ANSWERS]
            order_loads()
            return answers >= enough and version > self._words[_TOLD] + 1

        return self.parameters.await_version(version, is_far_ahead)

    @property
    def keepalives(self) -> object:
        """A value that changes whenever a keepalive of a trainer arrives. Raises `lost`: whoever waits looks here."""
        if self.lost is not None:
            raise self.lost
        return self._words[_ALIVE]

    def finish(self) -> None:
        """Wait, as the receiver, until the others of this host have left, `hang_s` at most. Not after an error."""
        readers = self.sizes.readers
        if self.own == self.sizes.receiver and self.lost is None:
            has_left = {gmi: _LEFT + number for number, gmi in enumerate(readers)}
            self._notifier.wait_until_left(readers, self._notifier.hang_s, lambda gmi: bool(self._words[has_left[gmi]]))

    def close(self) -> None:
        """Leave: stop watching the others."""
        if self.own != self.sizes.receiver:
            self._words[_LEFT + self.sizes.readers.index(self.own)] = 1
            self._notifier.notify(self.sizes.receiver)
        self._notifier.close()

    def wake_all(self) -> None:
        """Wake all policy workers of this host, also this one."""
        for peer in (self.own, *self.sizes.readers):
            self._notifier.notify(peer)

    @property
    def wants_answers(self) -> bool:
        """Whether a policy worker of this host waits for answers which version is the newest."""
        return max(self._wanted) > self._words[_ANSWERS]

    def tell_newest(self, version: int) -> None:
        """Note, as the receiver, which version was the newest where trainers are; its parameters may come later."""
        self._words[_TOLD] = version
        publish(self._words, _ANSWERS, self._words[_ANSWERS] + 1)
        self.wake_all()

    def renew(self) -> None:
        """Count a keepalive, as the receiver."""
        self._words[_ALIVE] += 1
        self.wake_all()
