"""Roles that use their GPU as far as the stand-in for CUDA goes: they always have something in flight."""

import os
import signal
import subprocess
import time
from pathlib import Path

from gmi_drl.comm.memory.cuda_context import driver
from gmi_drl.processes.signals import DRAIN
from gmi_drl.roles.drl_role import DRL_role


class Works(DRL_role):
    """Works for so many seconds, or until it is ended; `stands_still`: where no signal is heard of.

    Its last launches are in flight when it returns.
    """

    def GMI_run(self, seconds=600.0, stands_still=False, folder=""):
        driver().cuLaunchKernel()
        if stands_still:
            signal.pthread_sigmask(signal.SIG_BLOCK, {DRAIN})  # as in a call that does not return
        if folder:
            Path(folder, f"works-{self.GMI_id}").write_text("")
        if stands_still:
            time.sleep(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            driver().cuLaunchKernel()
            self.mgr.report({})  # which tells, too, that the launcher is dead
            time.sleep(0.005)
        return self.GMI_id


class StartsOthers(Works):
    """Works, and has started a process that knows nothing of MPS; its id stands in a file."""

    def GMI_run(self, folder, **more):
        child = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL)
        Path(folder, f"child-{child.pid}").write_text("")
        return super().GMI_run(folder=folder, **more)
