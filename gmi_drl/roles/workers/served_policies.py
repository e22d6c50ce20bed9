"""The parts of a served actor by policy: those that have learnt ask or act beside it, frozen ones act beside it."""

from collections.abc import Callable, Sequence

import torch

from gmi_drl.config.policies import agents_of
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.serving.policies_player import rows_of
from gmi_drl.roles.workers.requester import Inference
from gmi_drl.roles.workers.served_ring import ServedShare
from gmi_drl.roles.workers.several import Frozen, frozen_agent
from gmi_drl.tasks import Task


def parts_of_policies(
    mgr: GMI_manager,
    config: RunConfig,
    tasks: Sequence[Task],
    generators: Sequence[torch.Generator | None],
    inferences: Callable[[Sequence[GMI_manager]], Sequence[Inference]],
) -> tuple[dict[str, ServedShare], dict[str, Frozen]]:
    """The parts of all policies of a run by name: those that have learnt, then frozen ones.

    Args:
        mgr: Of the actor.
        config: Of the run.
        tasks: Of the ring's members.
        generators: Of each member's noise; None to act by the mode.
        inferences: Returns who gives the actions, for the actor as each policy that has learnt sees it.
    """
    spec, first = tasks[0].spec, tasks[0]
    agents = agents_of(config.policies, spec.agent_names, spec.name)
    learnt = [name for name, section in config.policies.items() if section.checkpoint is None]
    seen = {name: mgr.of_policy(name, (len(agents[name]), spec.agents)) for name in learnt}
    shares = {
        name: ServedShare(tasks, inference, acting_of(seen[name].configure()), generators, rows_of(first, agents[name]))
        for name, inference in zip(learnt, inferences(list(seen.values())), strict=True)
    }
    frozen = dict[str, Frozen]()
    for name, section in config.policies.items():
        if section.checkpoint is not None:
            agent = frozen_agent(mgr, name, spec)
            frozen[name] = Frozen(tasks, rows_of(first, agents[name]), agent, generators)
    return shares, frozen
