"""A `MovingLink` between GPUs: vectors there go by NCCL, others by sockets."""

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from gmi_drl.comm import nccl_communicator as communicator
from gmi_drl.comm.groups.async_work import AsyncWork, in_background
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError

_Vectors = Mapping[int, Sequence[Tensor]]
_INSTEAD = "TCP (a `SocketLink`)"
_LOOK_EVERY = timedelta(milliseconds=100)


class NcclLink:
    """Moves what lies on the GPU by one group of sends and receives of NCCL, and all else by the sockets.

    NCCL tells nobody that a rank is gone. So it works in a thread of its own; meanwhile this one watches the other
    ranks by their sockets, and aborts the communicator if one is lost. Behind each move ranks tell those with which
    they moved that they have done so: none leaves while another still needs it.

    Args:
        sockets: Between the same ranks; closed with this link.
        store: Of torch, of this link alone, for all ranks.
        device: A GPU: where this rank's vectors lie that NCCL moves.
        most_per_gpu: Ranks of a GPU.
        on_one_host: Whether all ranks are on this host.

    Raises:
        UsageError: If the device is no GPU.
        MachineError: If there is no NCCL, one too old for several ranks of a GPU, or it cannot connect the ranks.
        PeerDiedError, PeerSilentError: If another rank is lost meanwhile.
    """

    def __init__(
        self, sockets: SocketLink, store: Any, device: torch.device, *, most_per_gpu: int = 1, on_one_host: bool = True
    ) -> None:
        communicator.check(most_per_gpu, _INSTEAD)
        communicator.prepare(device, most_per_gpu, _INSTEAD, on_one_host=on_one_host)
        if str(device) == "cuda":
            device = torch.device("cuda", torch.cuda.current_device())
        self.rank, self.size, self.device = sockets.rank, sockets.size, device
        self.wait_s = 0.0
        self._sockets, self._others = sockets, {rank for rank in range(sockets.size) if rank != sockets.rank}
        self._nccl: Any = communicator.process_group(store, self.rank, self.size)
        self._on_gpu(lambda: communicator.connect(self._nccl, device, _INSTEAD), self._others)

    def move_several(self, sends: _Vectors, receives: _Vectors) -> None:
        """See `MovingLink`. It is complete when this returns. Vectors on the GPU are contiguous."""
        here, there = self._split(sends), self._split(receives)
        if here[0] or there[0]:
            self._sockets.move_several(here[0], there[0])
        if partners := here[1].keys() | there[1].keys():
            self._on_gpu(lambda: self._move(here[1], there[1]), partners)

    def close(self) -> None:
        """Leave the group."""
        self._end()
        self._sockets.close()

    def _split(self, vectors: _Vectors) -> tuple[dict[int, list[Tensor]], dict[int, list[Tensor]]]:
        """Those that are not on the GPU, and those that are, by rank; empty ones do not travel."""
        parts = dict[int, list[Tensor]](), dict[int, list[Tensor]]()
        for rank, several in vectors.items():
            for vector in several:
                if vector.numel():
                    parts[vector.device.type == self.device.type].setdefault(rank, []).append(vector.detach())
        return parts

    def _move(self, sends: _Vectors, receives: _Vectors) -> None:
        """Start, and wait for NCCL: a group of operations goes over the communicator of all ranks."""
        self._nccl._start_coalescing()
        for rank, vectors in sends.items():
            for vector in vectors:
                self._nccl.send([vector], rank, 0)
        for rank, vectors in receives.items():
            for vector in vectors:
                self._nccl.recv([vector], rank, 0)
        work = self._nccl._end_coalescing()
        while not work.is_completed():
            time.sleep(0)  # lets other threads run
        work.wait()

    def _on_gpu(self, work: Callable[[], None], partners: AbstractSet[int]) -> None:
        """Do something by NCCL with some ranks, all of which do the same.

        Raises:
            MachineError: If NCCL cannot.
            PeerDiedError, PeerSilentError: If a rank is lost; the communicator has ended then.
        """
        began, waiting = time.perf_counter(), WaitClock()
        is_gpu = self.device.type == "cuda"
        stream = torch.cuda.current_stream(self.device) if is_gpu else None

        def do() -> None:
            with torch.cuda.stream(stream) if is_gpu else nullcontext():  # NCCL goes behind what this stream has to do
                work()

        doing = in_background(do)
        try:
            while not _has_ended(doing):
                self._sockets.check(lambda: set() if doing.is_completed() else set(partners), waiting)
            one = torch.ones(1)
            self._sockets.move_several(
                {rank: (one,) for rank in partners}, {rank: (torch.empty(1),) for rank in partners}
            )
        except (PeerDiedError, PeerSilentError, MachineError):
            self._end()
            raise
        finally:
            self.wait_s += time.perf_counter() - began

    def _end(self) -> None:
        nccl, self._nccl = self._nccl, None
        if nccl is not None:
            communicator.abort(nccl)


def _has_ended(work: AsyncWork) -> bool:
    """Wait a little.

    Raises:
        MachineError: If it has failed.
    """
    try:
        work.wait(_LOOK_EVERY)
    except GmiError:
        raise
    except RuntimeError as error:
        if not work.is_completed():
            return False
        raise MachineError(f"NCCL cannot move between GPUs: {error}. NCCL_DEBUG=WARN logs more") from error
    return True
