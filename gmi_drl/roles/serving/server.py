"""The serving role: a trained policy acts in the environments of a GMI (TCG, paper section 5.1)."""

import time
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from gmi_drl.algo.policy import ActingAgent
from gmi_drl.config.run_config import RunConfig
from gmi_drl.replay.files.index import Shard, step_bytes
from gmi_drl.replay.files.shards import ShardFiles
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Ready, Start, Stop, Wrote
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.replay.sink import TableSink
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.episode_sums import totals
from gmi_drl.roles.serving.latency import Latencies
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.roles.serving.recorder import Recorder
from gmi_drl.roles.serving.service import Service
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.phases import ACT, SIMULATE, WAIT
from gmi_drl.tasks import Task

WAIT_S = 1.0
REPORT_S = 1.0


class Steps(Protocol):
    """Plays blocks of control steps, and counts episodes: `Service`, or `workers.served_ring.ServedRing`."""

    num_env: int

    @property
    def sums(self) -> Tensor:
        """See `EpisodeSums`."""

    def play(self, steps: int) -> None:
        """See `Service.play`."""

    def phases(self) -> dict[str, float]:
        """See `Service.phases`."""

    def latencies(self) -> list[float]:
        """See `Service.latencies`."""


class Server(DRL_role):
    """Serves the policy of its run folder, in blocks of steps, when all GMIs are ready."""

    def GMI_run(
        self,
        steps: int,
        seed: int,
        stochastic: bool,
        experience: str | None = None,
        shard_bytes: int = 0,
        into: str | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        """Serve `steps` control steps, or until the launcher sends `Stop`. Returns sums and times.

        The i-th GMI that simulates has the same environments and noise as `gmi-drl play` with the seed
        `serving_seed(seed, i)`. With a folder `experience`, record there, in shards of about `shard_bytes`; with
        `into`, a table of a replay server and its token, send there.
        """
        config, own_seed = self.mgr.configure(), serving_seed(seed, self.number)
        torch.manual_seed(own_seed)  # some simulators draw from torch's own generator
        task = self.make_task(config, own_seed)
        agent = self.make_agent(task, config)
        noise = torch.Generator(self.mgr.device).manual_seed(own_seed) if stochastic else None
        recorder = None if experience is None else self._recorder(task, steps, Path(experience), shard_bytes)
        if into is not None:
            sink = TableSink(into, task.spec, task.num_env, token)
            recorder = Recorder(task, min(config.learner.horizon, steps), sink)
        service = Service(task, agent, noise, cuda_graphs=config.cuda_graphs, recorder=recorder)
        return self._serve(service, steps, config.learner.horizon, recorder)

    def _recorder(self, task: Task, steps: int, folder: Path, shard_bytes: int) -> Recorder:
        def report(shard: Shard) -> None:
            self.mgr.launcher.deliver(Wrote(shard.model_dump()))

        in_shard = max(1, shard_bytes // (step_bytes(task.spec) * task.num_env))
        return Recorder(task, min(in_shard, steps), ShardFiles(folder, self.GMI_id, report))

    @property
    def number(self) -> int:
        """Index of this GMI among those that simulate."""
        return [gmi.id for gmi in self.mgr.layout.with_role("simulator")].index(self.GMI_id)

    def make_task(self, config: RunConfig, seed: int) -> Task:
        """The task to act in."""
        return open_task(self.mgr, config, self.mgr.gmi.num_env, seed)

    def make_agent(self, task: Task, config: RunConfig) -> ActingAgent:
        """The agent that acts in the task, by the policy of the run folder."""
        return load_agent(RunFolder(self.mgr.run_folder), task.spec, config, self.mgr.device)

    def phases(self, service: Steps) -> dict[str, float]:
        """Seconds of the last block by phase. Waits for the device, once."""
        return {WAIT.name: 0.0, **service.phases()}

    def _may_start(self) -> bool:
        """Wait until all GMIs are ready, so that they serve at the same time. Returns whether to serve at all."""
        while not (messages := self.mgr.launcher.await_messages(WAIT_S)):
            pass
        return Start() in messages and Stop() not in messages  # a signal may come just when all are ready

    def _serve(self, service: Steps, steps: int, block: int, recorder: Recorder | None = None) -> dict[str, Any]:
        """Play when all GMIs are ready, until `steps` are done or the launcher sends `Stop`. Returns sums and times."""
        self.mgr.launcher.deliver(Ready())
        steps = steps if self._may_start() else 0
        done, reported_s, started_s = 0, time.monotonic(), time.monotonic()
        phases: dict[str, float] = {phase.name: 0.0 for phase in (SIMULATE, ACT, WAIT)}
        latencies = Latencies()
        while done < steps and Stop() not in self.mgr.launcher.messages():
            now = min(block, steps - done, recorder.room if recorder else block)
            service.play(now)
            done += now
            for name, seconds in self.phases(service).items():
                phases[name] += seconds
            latencies.add(service.latencies())
            if recorder and not recorder.room:
                recorder.flush()
            if time.monotonic() - reported_s > REPORT_S:
                reported_s = time.monotonic()
                self.mgr.report({"steps": done})
        ended_s = time.monotonic()  # waiting for the disk below is not serving
        if recorder:
            recorder.close()
        times = {"started_s": started_s, "ended_s": ended_s, "latencies": latencies.to_json()}
        return {"num_env": service.num_env, "steps": done, **times, **phases, **totals(service.sums)}
