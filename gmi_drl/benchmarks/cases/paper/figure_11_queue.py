"""An agent process and a trainer process with a queue between them, as is usual without GMIs (Figure 11).

`python -m gmi_drl.benchmarks.cases.paper.figure_11_queue ORDER`, with an `Order` as JSON. Simulator, policy and learner
are ours. Experience goes through a `torch.multiprocessing.Queue`, a whole rollout at a time; parameters go through
shared tensors under a lock. Prints rates and lags after the warm-up, as JSON.
"""

import json
import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.config.run_config import a3c_of, default_config
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

CPU = torch.device("cpu")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Order:
    """The task, the seconds of training and the cores. At most `max_lag` rollouts wait in the queue."""

    task: str
    num_env: int
    seconds: float
    warm_up_s: float
    max_lag: int
    agent_core: int
    trainer_core: int


@dataclass
class Shared:
    """Parameters and statistics in shared memory: the trainer writes them, the agent reads them."""

    vector: Tensor
    statistics: Tensor
    version: Tensor
    lock: Any


def main() -> None:
    """Start the agent's process, and train in this one."""
    order = Order(**json.loads(sys.argv[1]))
    _take_core(order.trainer_core)
    config, spec = default_config(TASK_SPECS[order.task], "a3c"), TASK_SPECS[order.task]
    learner = a3c_of(config)
    agent = make_agent(spec, learner, CPU, seed=config.seed)
    a3c = A3C(agent.policy, agent.normaliser, learner)
    context = mp.get_context("spawn")
    shared = Shared(
        _shared(a3c.flat.vector),
        _shared(agent.normaliser.statistics),
        _shared(torch.zeros(1, dtype=torch.int64)),
        context.Lock(),
    )
    queue, ends = context.Queue(maxsize=max(1, order.max_lag)), context.Event()
    process = context.Process(target=act, args=(order, shared, queue, ends), daemon=True)
    process.start()
    try:
        print(json.dumps(learn(order, agent, a3c, shared, queue)))
    finally:
        ends.set()
        process.kill()
        process.join()


def learn(order: Order, agent: Agent, a3c: A3C, shared: Shared, queue: Any) -> dict[str, float]:
    """Learn from the rollouts of the queue. Returns rates and lags after the warm-up."""
    form, batch = _form(order, a3c.config.horizon), None
    counted, lags, began_s = 0, list[float](), 0.0
    first_s: float | None = None
    while first_s is None or time.monotonic() - first_s < order.warm_up_s + order.seconds:
        rollout: dict[str, Tensor] = queue.get(timeout=PATIENCE_S)
        first_s = first_s or time.monotonic()
        batch = batch or ExperienceBatch.empty(form, 1, CPU)
        for name, tensor in rollout.items():
            if name != "version":
                getattr(batch, name)[0].copy_(tensor)
        a3c.update(batch)
        agent.normaliser.merge(batch.delta)
        if time.monotonic() - first_s >= order.warm_up_s:
            began_s = began_s or time.monotonic()
            counted += 1
            lags.append(float(shared.version - rollout["version"]))
        with shared.lock:
            shared.vector.copy_(a3c.flat.vector)
            shared.statistics.copy_(agent.normaliser.statistics)
            shared.version += 1
    rate = (counted - 1) * form.horizon * form.num_env / max(time.monotonic() - began_s, 1e-9)
    return {"rate": rate, "lag_mean": sum(lags) / len(lags), "lag_max": max(lags), "updates": float(counted)}


def act(order: Order, shared: Shared, queue: Any, ends: Any) -> None:
    """Act with the newest parameters, one rollout after another, until `ends` is set."""
    _take_core(order.agent_core)
    config = default_config(TASK_SPECS[order.task], "a3c")
    learner = a3c_of(config)
    task = make(order.task, num_env=order.num_env, device="cpu", seed=config.seed, threads=1)
    agent = make_agent(task.spec, learner, CPU, seed=config.seed)
    vector = FlatParameters(agent.policy.parameters_in_order(), tail=0, make_bucket=torch.zeros).vector
    evaluate, noise = partial(agent.evaluate_actions, config=learner), torch.Generator().manual_seed(config.seed)
    actor, clock = Actor(task, agent, learner, noise, evaluate=evaluate), PhaseClock(CPU)
    form = _form(order, learner.horizon)
    slot = actor.make_slot()
    kinds = [kind.name for kind in form.kinds if kind.name != "facts"]
    with closing(task):
        while not ends.is_set():
            with shared.lock:
                vector.copy_(shared.vector)
                agent.normaliser.load(shared.statistics)
                version = shared.version.clone()
            clock.start()
            actor.collect(slot, clock)
            queue.put({name: getattr(slot.rollout, name).clone() for name in kinds} | {"version": version})


def _form(order: Order, horizon: int) -> RolloutForm:
    spec = TASK_SPECS[order.task]
    return RolloutForm(horizon, order.num_env, spec.observation, spec.action)


def _shared(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().share_memory_()  # type: ignore[no-untyped-call,no-any-return]


def _take_core(core: int) -> None:
    os.sched_setaffinity(0, [core])
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
