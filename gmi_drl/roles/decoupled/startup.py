"""Messages between agents and trainers before they begin: sizes of the task, and that the channels have their memory.

Simulators may load and compile for long, some longer than others. Other GMIs wait for them here.
"""

import json
from dataclasses import dataclass

from gmi_drl.files import write_atomically
from gmi_drl.layout.pools import far_agents, pool_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.decoupled.trainer_connection import TrainerConnection
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec, spec_of


def send_task_info(mgr: GMI_manager, task: Task, trainers: TrainerConnection, *, tells_terms: bool = True) -> None:
    """Send a pool's trainers the task's sizes and reward terms, once, from its first agent.

    Args:
        mgr: Of an agent.
        task: Of that agent.
        trainers: Of the pool.
        tells_terms: Whether rollouts of these trainers have the terms of the reward, if there are any.
    """
    pool = pool_of(mgr.layout, mgr.gmi.id)
    if mgr.gmi.id != pool.agents[0] or mgr.predecessors:
        return
    terms = terms_of(task) if tells_terms else None
    text = json.dumps({"spec": task.spec.to_json(), "terms": list(terms.names) if terms else []})
    trainers.broadcast(text)


@dataclass(frozen=True)
class TaskInfo:
    """What a GMI without environments knows of the task.

    Args:
        text: As it is sent.
    """

    text: str

    @property
    def spec(self) -> TaskSpec:
        """The task's sizes."""
        return spec_of(json.loads(self.text)["spec"])

    @property
    def terms(self) -> list[str]:
        """The names of the reward's terms that rollouts tell."""
        terms: list[str] = json.loads(self.text)["terms"]
        return terms


def receive_task_info(mgr: GMI_manager, sender: int) -> TaskInfo:
    """Receive the task's sizes and the names of its reward terms, for as long as simulators may load.

    A GMI may be started again, and the message comes once: it is kept in a file of this launch for successors.

    Args:
        mgr: Of a trainer or a policy worker.
        sender: The first agent of the trainer's pool, or who tells the policy worker.
    """
    kept = mgr.rendezvous_folder / f"task-of-{mgr.gmi.id}.json"
    if mgr.predecessors and kept.exists():
        return TaskInfo(kept.read_text())
    text = Peer(mgr, sender).receive(LOADING_S)
    if mgr.agents_are_restarted:
        write_atomically(kept, text)
    return TaskInfo(text)


def announce_memory(mgr: GMI_manager, info: TaskInfo) -> None:
    """Tell the agents of this host, from a pool's first trainer, that the channels have memory.

    Policy workers are told what the task is like; the proxy of one on another host passes it on.
    """
    layout = mgr.layout
    pool, remote = pool_of(layout, mgr.gmi.id), far_agents(layout)  # whose proxies see it
    if mgr.gmi.id != pool.trainers[0]:
        return
    for gmi_id in pool.agents:
        if gmi_id not in remote:
            Peer(mgr, gmi_id).send("room")
    for gmi_id in pool.policy_workers:
        Peer(mgr, gmi_id).send(info.text)
