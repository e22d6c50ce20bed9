"""A client of MPS as a process of its own: makes a context, keeps work in flight, and ends as it is told.

python mps_client.py [drains | deaf | forks]
"""

import ctypes
import os
import signal
import sys
import time

from gmi_drl.comm.memory.cuda_context import driver, make_context
from gmi_drl.processes.signals import DRAIN
from gmi_drl.roles.main import drain


def main(kind: str) -> None:
    """Tell when the context is made, then work until somebody ends it."""
    if kind == "drains":
        signal.signal(DRAIN, drain)
    if kind == "forks" and os.fork():
        time.sleep(600)
    make_context()
    launch = ctypes.CDLL.__getattr__(driver(), "cuLaunchKernel")
    print(os.getpid(), flush=True)  # before anything is in flight: who started this may be dead
    while True:
        launch()
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
