"""The simulator on a GMI of its own: it steps its task at the requests of its agent (TDG, TDG_EX)."""

import time
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
    """Opens its task and serves it to the agent of its device."""

    @property
    def chain(self) -> Chain:
        """The GMIs of its device."""
        return chain_of(self.mgr.layout, self.GMI_id)

    def simulate(self, config: RunConfig, seed: int) -> None:
        """Serve until the agent closes."""
        torch.manual_seed(seed)  # some simulators draw from torch's own generator
        task = open_task(self.mgr, config, self.mgr.gmi.num_env, seed)
        serve_task(task, Peer(self.mgr, self.chain.agent, self.mgr.waits.behind))


class TrainingSimulator(Simulator):
    """Has the same seed as the holistic GMI at the same place in the order of simulators."""

    def GMI_run(self, resume: str | None = None) -> None:
        """Serve a training; `resume` as of `Holistic`."""
        config, place = self.mgr.configure(), self.chain.place_of(self.GMI_id)
        self.simulate(config, seed_of(config, start_of(resume), place, "task"))


class ServingSimulator(Simulator):
    """Has the same seed as the `Server` at the same place in the order of simulators."""

    def GMI_run(self, seed: int, **agents: Any) -> None:
        """Serve an agent. The other parameters of a serving are for agents."""
        self.simulate(self.mgr.configure(), serving_seed(seed, self.chain.place_of(self.GMI_id)))


def serve_task(task: Task, agent: Peer) -> None:
    """Send an agent the facts about a task, then answer its requests (`RemoteTask`)."""
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
    agent.send(now(spec=task.spec.to_json(), counts_by_itself=task.counts_by_itself, terms=names))
    agent.serve(
        {
            "step": lambda data: _step(task, data["action"], data["episode_length"]),
            "reset": reset,
            "save": lambda _: task.state_dict(),
            "load": load,
            "terms": lambda _: terms.pop_sums() if terms else None,
        }
    )


def _step(task: Task, action: Tensor, episode_length: Tensor | None) -> dict[str, Any]:
    """One control step, and its seconds. A given `episode_length` is set before."""
    started = time.perf_counter()
    if episode_length is not None:
        task.episode_length.copy_(episode_length)
    obs, reward, terminated, truncated, info = task.step(action)
    reward = torch.stack((reward, info["own_reward"])) if "own_reward" in info else reward[None]
    own_end = [info["own_end"]] if "own_end" in info else []
    flags = torch.stack((terminated, truncated, info["bad"], info["valid"], *own_end))
    final_obs = info["final_obs"][terminated | truncated]  # waits for a GPU, so that the time is complete
    answer = {"obs": obs, "reward": reward, "flags": flags, "final_obs": final_obs}
    return {**answer, "simulated_s": time.perf_counter() - started}
