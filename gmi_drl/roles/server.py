"""The serving role: a learnt policy acts in the worlds of a GMI (TCG, paper section 5.1)."""

import time
from contextlib import closing
from typing import Any

import torch

from gmi_drl.roles.configured import configured
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.player import load_agent
from gmi_drl.roles.service import Service
from gmi_drl.roles.words import Ready, Start, Stop
from gmi_drl.roles.worlds import make_worlds
from gmi_drl.run.folder import RunFolder

WAIT_S = 1.0
REPORT_S = 1.0
SEEDS = 2**32


class Server(DRL_role):
    """Plays the policy in its run folder: says when it is ready, waits for the others, then serves in blocks."""

    def GMI_run(self, steps: int, seed: int, stochastic: bool) -> dict[str, Any]:
        """Serve so many control steps, or until the launcher says stop. Returns what was done.

        GMI i has the worlds and the noise of `gmi-drl play --seed SEED+i`.
        """
        config, own_seed = configured(self.mgr), (seed + self.GMI_id) % SEEDS
        torch.manual_seed(own_seed)  # some simulators draw from torch's own generator
        with closing(make_worlds(self.mgr, config, self.mgr.gmi.num_env, own_seed)) as task:
            agent = load_agent(RunFolder(self.mgr.run_folder), task.spec, config, self.mgr.device)
            noise = torch.Generator(self.mgr.device).manual_seed(own_seed) if stochastic else None
            service = Service(task, agent, noise, cuda_graphs=config.cuda_graphs)
            self.mgr.line.deliver(Ready())
            return self._serve(service, steps if self._may_start() else 0, config.learner.horizon)

    def _may_start(self) -> bool:
        """Wait until all GMIs are ready, so that they serve side by side."""
        while True:
            for word in self.mgr.line.await_words(WAIT_S):
                return word == Start()

    def _serve(self, service: Service, steps: int, block: int) -> dict[str, Any]:
        done, told_s, started_s = 0, time.monotonic(), time.monotonic()
        phases = {"sim_s": 0.0, "act_s": 0.0}
        while done < steps and Stop() not in self.mgr.line.words():
            service.play(min(block, steps - done))
            done += min(block, steps - done)
            for name, seconds in service.phases().items():
                phases[name] += seconds
            if time.monotonic() - told_s > REPORT_S:
                told_s = time.monotonic()
                self.mgr.report({"steps": done})
        episodes, returns, lengths, bad = service.sums.tolist()
        sums = {"episodes": int(episodes), "return_sum": returns, "length_sum": lengths, "bad": int(bad)}
        return {"steps": done, "started_s": started_s, "ended_s": time.monotonic(), **phases, **sums}
