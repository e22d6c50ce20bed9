"""The operations that a GPU would be given, counted on torch's `meta` device: its tensors have shapes and no data.

Code that waits for the device, branches on values or mixes devices fails there, or is refused here where `meta` alone
lets it pass. Code that checks whether the device is a CPU takes the GPU's branch. Code that checks whether it is CUDA
takes the other one. So this does not see streams, events, captures, pinned memory, and waits for these by name: a
`Captured` runs as it is and is counted as the graph that it would be, the clock of phases reads the host's, and the
staging of a reduction does not wait for its stream. Nor does it see the upload of an index that is a Python list. There
is no generator of `meta`: one of the CPU is used.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import astuple, dataclass
from math import inf
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gmi_drl import cuda_graph

META = torch.device("meta")
aten = torch.ops.aten
NOTHING_TO_DO = {
    aten.empty,
    aten.empty_like,
    aten.empty_strided,
    aten.new_empty,
    aten.new_empty_strided,
    aten.scalar_tensor,  # of `tensor[0] = 1.0`: on a GPU an argument of the kernel
}
TWO_KERNELS = {aten.masked_fill}  # a copy, then what `masked_fill_` does
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class WaitsError(AssertionError):
    """Code waits for the device where it must not, or would fail on one."""


@dataclass
class Counts:
    """Operations that a device was given.

    Attributes:
        launches: Kernels that are launched one by one.
        graphs: Each replayed by one launch.
        in_graphs: Kernels of these.
        waits: Transfers that the host waits for: all that are not `non_blocking`.
        allocations: Outside of graphs, whose memory is taken once.
    """

    launches: int = 0
    graphs: int = 0
    in_graphs: int = 0
    waits: int = 0
    to_device: int = 0
    to_device_bytes: int = 0
    to_host: int = 0
    to_host_bytes: int = 0
    allocations: int = 0
    allocated_bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: int) -> "Counts":
        return Counts(*(number * factor for number in astuple(self)))

    def __sub__(self, other: "Counts") -> "Counts":
        return self + other * -1


class Watch(TorchDispatchMode):
    """Sees every operation of torch before a device does. The host gets ones from it.

    Attributes:
        counts: So far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()
        self._may_wait = 0.0
        self._in_graph = False

    @contextmanager
    def count(self) -> Iterator[Counts]:
        """Count the operations of a `with` block; complete at its end."""
        before, within = self.counts + Counts(), Counts()
        yield within
        vars(within).update(vars(self.counts - before))

    @contextmanager
    def allow(self, waits: float) -> Iterator[None]:
        """Let the host wait so many times, which must come; without limit for what is done once."""
        self._may_wait = waits
        yield
        left, self._may_wait = self._may_wait, 0.0
        assert left in (0, inf), f"{left} of {waits} waits did not come: allow fewer"

    @contextmanager
    def graph(self) -> Iterator[None]:
        """What is one graph on a GPU."""
        assert not self._in_graph, "a graph within a graph"
        self.counts.graphs += 1
        self._in_graph = True
        try:
            yield
        finally:
            self._in_graph = False

    def uploads(self, size: int, waits: bool) -> None:
        """The host gives the device so many bytes."""
        self._transfer(waits, f"{size} bytes to the device")
        self.counts.to_device += 1
        self.counts.to_device_bytes += size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, operation = kwargs or {}, func.overloadpacket
        if operation is aten._local_scalar_dense and args[0].is_meta:
            return self._download(args[0], waits=True).item()
        if operation is aten._to_copy and kwargs.get("device", args[0].device) != args[0].device:
            return self._move(func, args[0], kwargs)
        if operation is aten.copy_ and args[0].device != args[1].device:
            return self._copy(*args)
        given = [*tensors_in((args, kwargs.values()))]
        if any(tensor.is_meta for tensor in given):
            refuse_what_waits(operation, args, given)
        result = None if operation is aten._fused_adam_ else func(*args, **kwargs)  # which `meta` does not know
        self._add(func, given, [*tensors_in((result,))])
        return result

    def _add(self, func, given: list[Tensor], results: list[Tensor]) -> None:
        """An operation launches where it writes to what it was given or makes something new, as no view does."""
        memory = {tensor.untyped_storage()._cdata for tensor in given}
        new = [tensor for tensor in results if tensor.untyped_storage()._cdata not in memory]
        written = new + given if func._schema.is_mutable else new
        if func.overloadpacket in NOTHING_TO_DO or not any(tensor.is_meta and tensor.numel() for tensor in written):
            kernels = 0
        else:
            kernels = 2 if func.overloadpacket in TWO_KERNELS else 1
        if self._in_graph:
            self.counts.in_graphs += kernels
            return
        self.counts.launches += kernels
        if func.overloadpacket is not aten.scalar_tensor:
            sizes = [tensor.untyped_storage().nbytes() for tensor in new if tensor.is_meta and tensor.numel()]
            self.counts.allocations += len(sizes)
            self.counts.allocated_bytes += sum(sizes)

    def _move(self, func, source: Tensor, how):
        """`tensor.to(device)`."""
        dtype, waits = how.get("dtype") or source.dtype, not how.get("non_blocking", False)
        if source.is_meta:
            return self._download(source, waits).to(dtype)
        self.uploads(source.numel() * dtype.itemsize, waits)
        result = func(source, **how)
        self._add(func, [source], [result])
        self.counts.launches -= 1  # a copy is no kernel
        return result

    def _copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """`target.copy_(source)`."""
        if source.is_meta:
            return target.copy_(self._download(source, not non_blocking))
        self.uploads(source.numel() * target.element_size(), not non_blocking)
        return target

    def _download(self, source: Tensor, waits: bool) -> Tensor:
        self._transfer(waits, f"{list(source.shape)} to the host")
        self.counts.to_host += 1
        self.counts.to_host_bytes += source.numel() * source.element_size()
        return torch.ones(source.shape, dtype=source.dtype)

    def _transfer(self, waits: bool, what: str) -> None:
        if self._in_graph and self._may_wait != inf:  # constants are made in the calls before a capture
            raise WaitsError(f"a graph copies {what}")
        if waits and not self._may_wait:
            raise WaitsError(f"the host waits for a copy of {what}")
        self._may_wait -= waits
        self.counts.waits += waits


def tensors_in(values) -> Iterator[Tensor]:
    """All of an operation's arguments or results."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple | type({}.values())):
            yield from tensors_in(value)


def refuse_what_waits(operation, args, given: list[Tensor]) -> None:
    """What `meta` takes and a GPU does not, or not without a wait."""
    if any(not tensor.is_meta and tensor.dim() for tensor in given):
        raise WaitsError(f"{operation} mixes devices")
    if operation in INDEXING and any(index.dtype in (torch.bool, torch.uint8) for index in tensors_in(args[1])):
        raise WaitsError(f"{operation} waits for how much of a mask is True")


@contextmanager
def meta_device() -> Iterator[Watch]:
    """Count the operations on the device `META` in a `with` block."""
    watch = Watch()

    def one_graph(work):
        with watch.graph() if work._is_on else nullcontext():
            work._function()

    def uploading(make):
        """Tensors made of Python's numbers are no operation that a mode would see."""

        def made(*args, **kwargs):
            result = make(*args, **kwargs)
            if result.is_meta and not isinstance(args[make.__name__ == "new_tensor"], Tensor):
                watch.uploads(result.numel() * result.element_size(), waits=True)
            return result

        return made

    with ExitStack() as stack:
        for where, name in ((torch, "tensor"), (torch, "as_tensor"), (Tensor, "new_tensor")):
            stack.enter_context(patch.object(where, name, uploading(getattr(where, name))))
        stack.enter_context(patch.object(torch, "Generator", OfTheCpu))
        stack.enter_context(patch.object(cuda_graph.Captured, "__call__", one_graph))
        yield stack.enter_context(watch)


class OfTheCpu(torch.Generator):
    """A generator of the CPU, whatever it is asked for."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls)
