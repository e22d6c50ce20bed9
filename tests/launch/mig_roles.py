"""A role that tells on which MIG device it is."""

import os

from gmi_drl.roles.drl_role import DRL_role


class TellsDevice(DRL_role):
    """Returns what CUDA sees."""

    def GMI_run(self):
        return os.environ["CUDA_VISIBLE_DEVICES"]
