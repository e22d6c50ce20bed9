"""The ends of the channels that a GMI of a decoupled layout holds."""

import math

from gmi_drl.comm.channels import AgentEnd, ChannelSizes, TrainerEnd, agent_end, trainer_end
from gmi_drl.config import RunConfig, a3c_of
from gmi_drl.experience import RolloutForm
from gmi_drl.learners.a3c import A3CConfig
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.templates.tcg_ex import TRAINERS
from gmi_drl.workload import TaskSpec

STATISTIC_BYTES = 8


def rollout_form(mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int) -> RolloutForm:
    """The rollouts of this layout's agents, which are alike."""
    num_env = mgr.layout.with_role("agent")[0].num_env
    return RolloutForm(config.learner.horizon, num_env, spec.num_obs, spec.num_actions, num_terms)


def rollouts_of_an_update(config: A3CConfig, agents: int, trainers: int) -> int:
    """R: those that one trainer learns from at once; unless it is set, one of each agent, shared out."""
    return config.rollouts or math.ceil(agents / trainers)


def open_agent_end(mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int) -> AgentEnd:
    """That of an agent."""
    memory, post = mgr.channel_memory
    return agent_end(memory, post, mgr.gmi.id, _sizes(mgr, config, spec, num_terms), mgr.hang_s)


def open_trainer_end(mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int) -> TrainerEnd:
    """That of a trainer; rank 0 makes room for all."""
    memory, post = mgr.channel_memory
    return trainer_end(memory, post, mgr.gmi.id, _sizes(mgr, config, spec, num_terms), mgr.hang_s)


def _sizes(mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int) -> ChannelSizes:
    layout = mgr.layout
    assert layout.channels is not None  # as its template has checked
    agents = tuple(gmi.id for gmi in layout.with_role("agent"))
    trainers = layout.groups[TRAINERS].members
    statistics = STATISTIC_BYTES * (1 + 2 * spec.num_obs)
    return ChannelSizes(
        rollout_form(mgr, config, spec, num_terms),
        rollouts_of_an_update(a3c_of(config), len(agents), len(trainers)),
        agents,
        trainers,
        layout.channels,
        config.learner.bucket_bytes(spec) + statistics,
    )
