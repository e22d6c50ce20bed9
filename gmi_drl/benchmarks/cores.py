"""Cores that this process holds while it measures."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import allowed_cores

PURPOSE = "gmi-drl bench"
"""The purpose in the claim, shown to others that want the same cores."""


@contextmanager
def one_core() -> Iterator[None]:
    """Run on the first allowed core, with one thread of torch, and hold it, for the time of a `with` block.

    Raises:
        LayoutMismatchError: if another process holds it, a training for example.
    """
    with _hold(allowed_cores()[:1]):
        yield


@contextmanager
def all_cores() -> Iterator[Sequence[int]]:
    """The same with all allowed cores, still with one thread of torch: the sides' own threads use the other cores."""
    cores = allowed_cores()
    with _hold(cores):
        yield cores


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
