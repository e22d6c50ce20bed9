"""Messages between agents and trainers before they begin: sizes of the task, and that the channels have their memory.

Simulators may load and compile for long, some longer than others. Other GMIs wait for them here.
"""

import json

from gmi_drl.files import write_atomically
from gmi_drl.layout.pools import far_agents, pool_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.decoupled.trainer_connection import TrainerConnection
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec, spec_of


def send_task_info(mgr: GMI_manager, task: Task, trainers: TrainerConnection, *, tells_terms: bool = True) -> None:
    """Send a pool's trainers and policy workers the task's sizes and reward terms, once, from its first agent.

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
    for gmi_id in pool.policy_workers:
        Peer(mgr, gmi_id).send(text)


def receive_task_info(role: DRL_role) -> tuple[TaskSpec, list[str]]:
    """Receive the task's sizes and the names of its reward terms, from the first agent of the pool.

    A GMI may be started again, and the message comes once: it is kept in a file of this launch for successors.
    """
    first, *_ = pool_of(role.mgr.layout, role.GMI_id).agents
    kept = role.mgr.rendezvous_folder / f"task-of-{role.GMI_id}.json"
    if role.mgr.predecessors and kept.exists():
        text = kept.read_text()
    else:
        text = Peer(role.mgr, first).receive(LOADING_S)
        if role.mgr.agents_are_restarted:
            write_atomically(kept, text)
    info = json.loads(text)
    return spec_of(info["spec"]), info["terms"]


def announce_memory(role: DRL_role) -> None:
    """Tell agents and policy workers of this host, from a pool's first trainer, that the channels have memory."""
    layout = role.mgr.layout
    pool, remote = pool_of(layout, role.GMI_id), far_agents(layout)  # whose proxies see it
    if role.GMI_id != pool.trainers[0]:
        return
    for gmi_id in (*pool.agents, *pool.policy_workers):
        if gmi_id not in remote:
            Peer(role.mgr, gmi_id).send("room")
