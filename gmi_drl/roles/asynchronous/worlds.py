"""What trainers, which have no worlds, are told of those of their agents."""

import json
from dataclasses import asdict

from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec


def tell_of_worlds(role: DRL_role, task: Task, trainers: tuple[int, ...]) -> None:
    """Tell trainers the sizes of the worlds and the terms of the reward, which simulators alone know."""
    terms = terms_of(task)
    text = json.dumps({"spec": asdict(task.spec), "terms": list(terms.names) if terms else []})
    for trainer in trainers:
        role.GMI_send(text, trainer)


def hear_of_worlds(role: DRL_role) -> tuple[TaskSpec, list[str]]:
    """What the first agent tells of them."""
    first, *_ = role.mgr.layout.with_role("agent")
    told = json.loads(role.GMI_recv(first.id))
    return TaskSpec(**told["spec"] | {"hidden": tuple(told["spec"]["hidden"])}), told["terms"]
