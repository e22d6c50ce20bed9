"""The sizes of the channels of a pool, and which agents write into memory of their GPU."""

from collections.abc import Sequence

from torch import Tensor

from gmi_drl.comm.channels import ChannelSizes, packed_bytes
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.layout.pools import Pool, pool_of
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.workload import TaskSpec


def channel_sizes(
    mgr: GMI_manager, config: RunConfig, spec: TaskSpec, num_terms: int, parameters: Sequence[Tensor]
) -> ChannelSizes:
    """The sizes that all ends of a pool share.

    Every trainer of a layout learns from the same number of rollouts in an update, whatever the size of its pool.

    Args:
        mgr: Of a GMI of the pool.
        config: Of the run.
        spec: The task's sizes.
        num_terms: Number of terms of the reward that agents report.
        parameters: The tensors that trainers publish, for their size.
    """
    layout = mgr.layout
    assert layout.channels is not None  # as its template has checked
    agents, trainers, pool = layout.with_role("simulator"), layout.with_role("trainer"), pool_of(layout, mgr.gmi.id)
    form = config.learner.rollout_form(spec, agents[0].num_env, num_terms)
    return ChannelSizes(
        form,
        config.learner.rollouts_of(len(agents), len(trainers)),
        pool.agents,
        pool.trainers,
        layout.channels,
        packed_bytes(parameters),
        direct_agents(layout, pool),
        pool.policy_workers,
    )


def direct_agents(layout: Layout, pool: Pool) -> tuple[tuple[int, ...], ...]:
    """For each trainer of a pool, the agents on the same GPU that write into its memory there (`gpu_direct`)."""

    def device_of(gmi_id: int) -> Device | None:
        device = layout.device_of(gmi_id)
        return device if device.kind == "gpu" else None

    assert layout.channels is not None
    if not layout.channels.on_gpu or not BACKENDS.find(layout.backend).maps_memory:
        return ()
    direct = tuple(
        tuple(agent for agent in pool.agents if device_of(agent) is device_of(trainer) is not None)
        for trainer in pool.trainers
    )
    return direct if any(direct) else ()
