"""Which agents write into the memory of their trainer's GPU."""

import pytest

from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.layout.pools import pools_of
from gmi_drl.roles.decoupled.channel_setup import direct_agents


def direct(kind="gpu", nodes=(None, None, None), **more):
    """Of each pool. An agent and a trainer are on each of two devices, and on a third one an agent."""
    devices = []
    for index, (node, trains) in enumerate(zip(nodes, (True, True, False), strict=True)):
        agent = GMI(id=2 * index, roles=("simulator", "agent"), num_env=4, cores=(2 * index,))
        trainer = GMI(id=2 * index + 1, roles=("trainer",), cores=(2 * index + 1,))
        gmis = (agent, trainer) if trains else (agent,)
        devices.append(Device(node=node, kind=kind, index=index, gmis=gmis))
    layout = Layout(devices=tuple(devices), **{"channels": Channels(), **more})
    return [direct_agents(layout, pool) for pool in pools_of(layout)]


@pytest.mark.parametrize("backend", ["process", "mps"])
def test_agents_of_the_trainers_gpu_are_direct(backend):
    assert direct(backend=backend) == [((0,), (2,))]
    assert direct(backend=backend, nodes="aba") == [((0,),), ((2,),)]


@pytest.mark.parametrize("more", [{"kind": "cpu"}, {"backend": "mig"}, {"channels": Channels(on_gpu=False)}], ids=str)
def test_no_agent_is_direct_without_mappable_memory(more):
    assert direct(**more) == [()]
