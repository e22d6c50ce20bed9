"""The agent on a GMI of its own in serving: it acts in the task of its simulators (TDG, paper section 5.1)."""

from contextlib import closing
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.dedicated.remote_task import RemoteTask
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.serving.server import Server, Steps
from gmi_drl.run.phases import SIMULATE, WAIT
from gmi_drl.templates.dedicated import chain_of


class DedicatedServer(Server):
    """Serves as `Server` does, with a task on other GMIs. It reports for all GMIs of its device."""

    task: RemoteTask

    def GMI_run(self, *args: Any, **params: Any) -> dict[str, Any]:
        """See `Server`; at the end, also after an error, it ends the simulators."""
        simulators = [Peer(self.mgr, gmi_id) for gmi_id in chain_of(self.mgr.layout, self.GMI_id).simulators]
        with closing(RemoteTask(simulators, self.mgr.device)) as self.task:
            return super().GMI_run(*args, **params)

    @property
    def number(self) -> int:
        """See `Server`."""
        return chain_of(self.mgr.layout, self.GMI_id).number

    def make_task(self, config: RunConfig, seed: int) -> RemoteTask:
        """See `Server`: the simulators have seeds of their own."""
        return self.task

    def phases(self, service: Steps) -> dict[str, float]:
        """See `Server`; the time of steps beyond the simulators' own counts as waiting."""
        phases, simulated_s = super().phases(service), self.task.simulated_s
        self.task.simulated_s = 0.0
        return {**phases, SIMULATE.name: simulated_s, WAIT.name: phases[SIMULATE.name] - simulated_s}
