"""The probe of serving: measures a task and an agent that is not trained (paper section 5.2)."""

import gc
from collections.abc import Callable

import torch

from gmi_drl.roles.probes.probe import Probe
from gmi_drl.roles.serving.player import new_agent
from gmi_drl.roles.serving.service import Service
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.tasks import Task


class ServingProbe(Probe):
    """An iteration is a block of `horizon` steps, as many as one of a training has. GMIs exchange nothing."""

    service: Service | None = None

    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """See `Probe`."""
        assert self.service is not None
        self.service.play(self.config.learner.horizon)
        return decide()

    def phases(self) -> dict[str, float]:
        """See `Probe`."""
        assert self.service is not None
        return dict.fromkeys(PHASE_NAMES, 0.0) | self.service.phases()

    def detach_task(self) -> None:
        """See `Probe`."""
        self.service = None
        gc.collect()  # what was made for the task may be part of cycles

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        agent, _ = new_agent(task.spec, self.config, self.mgr.device)
        noise = torch.Generator(self.mgr.device).manual_seed(self.seed("agent"))
        self.service = Service(task, agent, noise, cuda_graphs=self.config.cuda_graphs)
