"""The serving role: a learnt policy acts in the worlds of a GMI (TCG, paper section 5.1)."""

import time
from contextlib import closing
from typing import Any

import torch

from gmi_drl.config import RunConfig
from gmi_drl.phases import ACT, SIMULATE, WAIT
from gmi_drl.roles.configured import configured
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.player import load_agent
from gmi_drl.roles.seeds import worlds_seed
from gmi_drl.roles.service import Service
from gmi_drl.roles.words import Ready, Start, Stop
from gmi_drl.roles.worlds import make_worlds
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task

WAIT_S = 1.0
REPORT_S = 1.0


class Server(DRL_role):
    """Plays the policy in its run folder: says when it is ready, waits for the others, then serves in blocks."""

    def GMI_run(self, steps: int, seed: int, stochastic: bool) -> dict[str, Any]:
        """Serve so many control steps, or until the launcher says stop. Returns what was done.

        GMI i has the worlds and the noise of `gmi-drl play --seed SEED+i`.
        """
        config, own_seed = configured(self.mgr), worlds_seed(seed, self.number)
        torch.manual_seed(own_seed)  # some simulators draw from torch's own generator
        with closing(self.make_task(config, own_seed)) as task:
            agent = load_agent(RunFolder(self.mgr.run_folder), task.spec, config, self.mgr.device)
            noise = torch.Generator(self.mgr.device).manual_seed(own_seed) if stochastic else None
            service = Service(task, agent, noise, cuda_graphs=config.cuda_graphs)
            self.mgr.line.deliver(Ready())
            return self._serve(service, steps if self._may_start() else 0, config.learner.horizon)

    @property
    def number(self) -> int:
        """Which of those that serve this is."""
        return self.GMI_id

    def make_task(self, config: RunConfig, seed: int) -> Task:
        """The worlds to serve."""
        return make_worlds(self.mgr, config, self.mgr.gmi.num_env, seed)

    def phases(self, service: Service) -> dict[str, float]:
        """Seconds of the last block by phase. Waits for the device, once."""
        return {**service.phases(), WAIT.name: 0.0}

    def _may_start(self) -> bool:
        """Wait until all GMIs are ready, so that they serve side by side."""
        while True:
            for word in self.mgr.line.await_words(WAIT_S):
                return word == Start()

    def _serve(self, service: Service, steps: int, block: int) -> dict[str, Any]:
        done, told_s, started_s = 0, time.monotonic(), time.monotonic()
        phases: dict[str, float] = {phase.name: 0.0 for phase in (SIMULATE, ACT, WAIT)}
        while done < steps and Stop() not in self.mgr.line.words():
            service.play(min(block, steps - done))
            done += min(block, steps - done)
            for name, seconds in self.phases(service).items():
                phases[name] += seconds
            if time.monotonic() - told_s > REPORT_S:
                told_s = time.monotonic()
                self.mgr.report({"steps": done})
        episodes, returns, lengths, bad = service.sums.tolist()
        sums = {"episodes": int(episodes), "return_sum": returns, "length_sum": lengths, "bad": int(bad)}
        times = {"started_s": started_s, "ended_s": time.monotonic()}
        return {"num_env": service.task.num_env, "steps": done, **times, **phases, **sums}
