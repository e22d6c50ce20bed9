"""The role that measures our side of `ppo_ant_v5`."""

from gmi_drl.bench.ant_v5 import make_ant_v5
from gmi_drl.roles.probe import Probe
from gmi_drl.tasks import Task


class AntV5Probe(Probe):
    """A probe whose worlds are gymnasium's Ant-v5."""

    def make_task(self, num_env: int, seed: int) -> Task:
        """The worlds of this GMI."""
        return make_ant_v5(num_env, seed, threads=len(self.mgr.gmi.cores), device=str(self.mgr.device))
