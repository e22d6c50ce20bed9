"""The ends of the channels that a GMI of a decoupled layout holds."""

from collections.abc import Sequence

from torch import Tensor

from gmi_drl.backends import BACKENDS
from gmi_drl.comm.channels import ChannelSizes, TrainerEnd, packed_bytes, trainer_end
from gmi_drl.config import RunConfig, a3c_of
from gmi_drl.experience import RolloutForm
from gmi_drl.layout import Device, Layout
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.templates.template import TRAINERS
from gmi_drl.workload import TaskSpec


def channel_sizes(
    mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int, parameters: Sequence[Tensor]
) -> ChannelSizes:
    """What all ends of a layout reckon by.

    Args:
        mgr: Of one of its GMIs.
        config: Of the run.
        spec: The task's sizes.
        num_terms: Terms of the reward that are told.
        parameters: What goes back, for its size.
    """
    layout = mgr.layout
    assert layout.channels is not None  # as its template has checked
    agents, trainers = layout.with_role("agent"), layout.groups[TRAINERS].members
    form = RolloutForm(config.learner.horizon, agents[0].num_env, spec.num_obs, spec.num_actions, num_terms)
    return ChannelSizes(
        form,
        a3c_of(config).rollouts_of(len(agents), len(trainers)),
        tuple(gmi.id for gmi in agents),
        trainers,
        layout.channels,
        packed_bytes(parameters),
        direct_agents(layout),
    )


def direct_agents(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """For each trainer the agents that write into its memory on their GPU (`comm.channels.direct`), by rank."""

    def device_of(gmi_id: int) -> Device | None:
        device = layout.device_of(gmi_id)
        return device if device.kind == "gpu" else None

    assert layout.channels is not None
    if not layout.channels.on_gpu or not BACKENDS.find(layout.backend).maps_memory:
        return ()
    agents = [gmi.id for gmi in layout.with_role("agent")]
    direct = tuple(
        tuple(agent for agent in agents if device_of(agent) is device_of(trainer) is not None)
        for trainer in layout.groups[TRAINERS].members
    )
    return direct if any(direct) else ()


def open_trainer_end(mgr: GMI_manager, sizes: ChannelSizes) -> TrainerEnd:
    """That of a trainer."""
    return trainer_end(*mgr.channel_memory, mgr.gmi.id, sizes, mgr.hang_s, mgr.device)
