"""The actor worker: environments that get their actions from a policy worker or an agent beside them (SRL, 2.2.1)."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.roles.decoupled.agent import RolloutLoop
from gmi_drl.roles.decoupled.startup import send_task_info
from gmi_drl.roles.decoupled.trainer_connection import connect_to_trainers
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Acts
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.seeds import seed_of, start_of
from gmi_drl.roles.workers.ends import open_ends
from gmi_drl.roles.workers.ring import Ring
from gmi_drl.roles.workers.several import connect_all, play_several
from gmi_drl.roles.workers.stream_setup import connect_server
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class ActorWorker(DRL_role):
    """Plays one rollout after another, until the trainers end the experience."""

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Send rollouts. Returns how many.

        Args:
            resume: The checkpoint that the trainers go on from. Environments begin anew.
        """
        config, start = self.mgr.configure(), start_of(resume)
        if config.policies:
            connections = connect_all(self.mgr, config)  # at once, as below
            tasks = self._open_tasks(config, start)
            return {"rollouts": play_several(self.mgr, config, connections, tasks, partial(self._seed, config, start))}
        return {"rollouts": self._play(config, start, self._seed(config, start, "agent"))}

    def _play(self, config: RunConfig, start: int, seed: int) -> int:
        """Play for one policy. Returns the number of rollouts."""
        trainers, server = connect_to_trainers(self.mgr), connect_server(self.mgr)  # at once: simulators may load long
        tasks = self._open_tasks(config, start)
        send_task_info(self.mgr, tasks[0], trainers)
        terms, noise = terms_of(tasks[0]), torch.Generator().manual_seed(seed)
        with ExitStack() as opened:
            num_terms = len(terms.names) if terms else 0
            ends = open_ends(self.mgr, config, tasks[0].spec, num_terms, trainers, opened, server)
            ring = Ring(tasks, ends.inference, acting_of(config), noise, ends.version)
            self.mgr.launcher.deliver(Acts())
            return RolloutLoop(ring, ends.follower, ends.writer, ends.end).run()

    def _open_tasks(self, config: RunConfig, start: int) -> list[Task]:
        """The tasks of the ring's members, of which the first has the seed of the GMI of TCG_EX at the same place."""
        gmi, tasks = self.mgr.gmi, []
        for member in range(gmi.ring):
            seed = self._seed(config, start, "task" + (f" {member}" if member else ""))
            torch.manual_seed(seed)  # some simulators draw from torch's own generator
            tasks.append(open_task(self.mgr, config, gmi.num_env // gmi.ring, seed))
        return tasks

    def _seed(self, config: RunConfig, start: int, purpose: str) -> int:
        """A seed for a purpose; another one for a restarted actor."""
        place = [gmi.id for gmi in self.mgr.layout.with_role("simulator")].index(self.GMI_id)
        nth = f" {self.mgr.predecessors}" if self.mgr.predecessors else ""
        return seed_of(config, start, place, f"{purpose}{nth}")
