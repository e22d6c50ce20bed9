"""Roles that use their GPU as far as the stand-in for CUDA goes: they always have something in flight."""

import signal
import time
from pathlib import Path

from gmi_drl.device.context import driver
from gmi_drl.roles.drl_role import DRL_role


class Works(DRL_role):
    """Works for so many seconds, or until it is ended; `stands_still`: where no signal is heard of."""

    def GMI_run(self, seconds=600.0, stands_still=False, folder=""):
        if folder:
            Path(folder, f"works-{self.GMI_id}").write_text("")
        if stands_still:
            driver().cuLaunchKernel()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # as in a call that does not return
            time.sleep(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            driver().cuLaunchKernel()
            self.mgr.report({})  # which tells, too, that the launcher is dead
            time.sleep(0.005)
        driver().cuCtxSynchronize()
        return self.GMI_id
