"""What agents and trainers tell each other before they begin: of their worlds, and that there is room for experience.

Simulators may load and compile for long, some longer than others; whoever waits for that waits here.
"""

import json
from dataclasses import asdict

from gmi_drl.layout.pools import far_agents, pool_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.decoupled.trainer_connection import TrainerConnection
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.peer import Peer
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec


def send_task_info(role: DRL_role, task: Task, way: TrainerConnection) -> None:
    """Tell all trainers the sizes of the worlds and terms of the reward, once; the first agent of a pool does it."""
    if role.GMI_id != pool_of(role.mgr.layout, role.GMI_id).agents[0] or role.mgr.predecessors:
        return
    terms = terms_of(task)
    way.tell(json.dumps({"spec": asdict(task.spec), "terms": list(terms.names) if terms else []}))


def receive_task_info(role: DRL_role) -> tuple[TaskSpec, list[str]]:
    """What the first agent of the pool tells of them."""
    first, *_ = pool_of(role.mgr.layout, role.GMI_id).agents
    told = json.loads(Peer(role.mgr, first).receive(LOADING_S))
    return TaskSpec(**told["spec"] | {"hidden": tuple(told["spec"]["hidden"])}), told["terms"]


def announce_memory(role: DRL_role) -> None:
    """Tell all agents of this host that the channels have their memory; the first trainer of a pool does it."""
    layout = role.mgr.layout
    pool, stood_in = pool_of(layout, role.GMI_id), far_agents(layout)  # who stands in for one sees it
    if role.GMI_id != pool.trainers[0]:
        return
    for gmi_id in pool.agents:
        if gmi_id not in stood_in:
            Peer(role.mgr, gmi_id).send("room")
