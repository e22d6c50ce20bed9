"""What agents and trainers tell each other before they begin: of their worlds, and that there is room for experience.

Simulators may load and compile for long, some longer than others; whoever waits for that waits here.
"""

import json
from dataclasses import asdict

from gmi_drl.comm.crossings import far_agents
from gmi_drl.roles.asynchronous.ways import Way
from gmi_drl.roles.dedicated.peer import LOADING_S, Peer
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.templates.template import TRAINERS
from gmi_drl.workload import TaskSpec


def tell_of_worlds(role: DRL_role, task: Task, way: Way) -> None:
    """Tell all trainers the sizes of the worlds and the terms of the reward; the first agent does it for all."""
    if role.GMI_id != role.mgr.layout.with_role("agent")[0].id:
        return
    terms = terms_of(task)
    way.tell(json.dumps({"spec": asdict(task.spec), "terms": list(terms.names) if terms else []}))


def hear_of_worlds(role: DRL_role) -> tuple[TaskSpec, list[str]]:
    """What the first agent tells of them."""
    first, *_ = role.mgr.layout.with_role("agent")
    told = json.loads(Peer(role.mgr, first.id).hear(LOADING_S))
    return TaskSpec(**told["spec"] | {"hidden": tuple(told["spec"]["hidden"])}), told["terms"]


def tell_of_room(role: DRL_role) -> None:
    """Tell all agents of this host that the channels have their memory; the first trainer does it."""
    layout = role.mgr.layout
    if role.GMI_id != layout.groups[TRAINERS].members[0]:
        return
    stood_in = far_agents(layout)  # who stands in for one sees it
    for gmi in layout.with_role("agent"):
        if gmi.id not in stood_in:
            Peer(role.mgr, gmi.id).say("room")
