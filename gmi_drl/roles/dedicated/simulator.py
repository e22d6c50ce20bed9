"""The simulator on a GMI of its own: it has worlds, and does with them what its agent asks for (TDG, TDG_EX)."""

import time
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.seeds import seed_of, serving_seed, start_of
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.templates.dedicated import Chain, chain_of


class Simulator(DRL_role):
    """Makes its worlds and serves the agent of its device with them."""

    @property
    def chain(self) -> Chain:
        """Whom it works with."""
        return chain_of(self.mgr.layout, self.GMI_id)

    def simulate(self, config: RunConfig, seed: int) -> None:
        """Serve until the agent closes."""
        torch.manual_seed(seed)  # some simulators draw from torch's own generator
        task = open_task(self.mgr, config, self.mgr.gmi.num_env, seed)
        serve_task(task, Peer(self.mgr, self.chain.agent, self.mgr.waits.behind))


class TrainingSimulator(Simulator):
    """Has the worlds that a holistic GMI of the same place has, if nothing but those GMIs' order counts."""

    def GMI_run(self, resume: str | None = None) -> None:
        """Serve a training; `resume` as of `Holistic`."""
        config, place = self.mgr.configure(), self.chain.place_of(self.GMI_id)
        self.simulate(config, seed_of(config, start_of(resume), place, "task"))


class ServingSimulator(Simulator):
    """Has the worlds that `Server` has on the GMI of the same place."""

    def GMI_run(self, seed: int, **agents: Any) -> None:
        """Serve an agent; what else is asked of the agents is their business."""
        self.simulate(self.mgr.configure(), serving_seed(seed, self.chain.place_of(self.GMI_id)))


def serve_task(task: Task, agent: Peer) -> None:
    """Tell an agent of the worlds, then do with them what it asks for (`RemoteTask`)."""
    terms = terms_of(task)

    def now(**more: Any) -> dict[str, Any]:
        return {"obs": task.obs, "episode_length": task.episode_length, **more}

    def reset(_: None) -> dict[str, Any]:
        task.reset()
        return now()

    def load(state: dict[str, Tensor]) -> dict[str, Any]:
        task.load_state_dict({name: tensor.cpu() for name, tensor in state.items()})
        return now()

    names = list(terms.names) if terms else None
    agent.send(now(spec=asdict(task.spec), counts_by_itself=task.counts_by_itself, terms=names))
    agent.serve(
        {
            "step": lambda asked: _step(task, asked["action"], asked["episode_length"]),
            "reset": reset,
            "save": lambda _: task.state_dict(),
            "load": load,
            "terms": lambda _: terms.pop_sums() if terms else None,
        }
    )


def _step(task: Task, action: Tensor, episode_length: Tensor | None) -> dict[str, Any]:
    """One control step, in episodes that are so long already, if that is told; and what all of it took."""
    started = time.perf_counter()
    if episode_length is not None:
        task.episode_length.copy_(episode_length)
    obs, reward, terminated, truncated, info = task.step(action)
    flags = torch.stack((terminated, truncated, info["bad"], info["valid"]))
    final_obs = info["final_obs"][terminated | truncated]  # which waits for a GPU, so that the time is the whole
    told = {"obs": obs, "reward": reward, "flags": flags, "final_obs": final_obs}
    return {**told, "simulated_s": time.perf_counter() - started}
