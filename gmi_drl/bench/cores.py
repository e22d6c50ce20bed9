"""Measuring in this process, on a core of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import allowed_cores


@contextmanager
def one_core() -> Iterator[None]:
    """Hold the first core that this process may use, with one thread of torch, for the time of a `with` block.

    Raises:
        LayoutMismatchError: if a training holds it.
    """
    import torch

    core = allowed_cores()[0]
    affinity, threads = os.sched_getaffinity(0), torch.get_num_threads()
    with claim([f"core-{core}"], "gmi-drl bench"):
        os.sched_setaffinity(0, {core})
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            os.sched_setaffinity(0, affinity)
