"""Measuring in this process, on cores of its own."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import allowed_cores

PURPOSE = "gmi-drl bench"
"""Tells others who holds the cores."""


@contextmanager
def one_core() -> Iterator[None]:
    """Hold the first core that this process may use, with one thread of torch, for the time of a `with` block.

    Raises:
        LayoutMismatchError: if a training holds it.
    """
    with _hold(allowed_cores()[:1]):
        yield


@contextmanager
def all_cores() -> Iterator[None]:
    """The same with every core, and still one thread of torch: for sides whose own threads use the rest."""
    with _hold(allowed_cores()):
        yield


@contextmanager
def _hold(cores: Sequence[int]) -> Iterator[None]:
    import torch

    affinity, threads = os.sched_getaffinity(0), torch.get_num_threads()
    with claim([f"core-{core}" for core in cores], PURPOSE):
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            os.sched_setaffinity(0, affinity)
