"""Which agents write into the memory of their trainer's GPU."""

import pytest

from gmi_drl.layout import GMI, Channels, Device, GmiGroup, Layout
from gmi_drl.roles.asynchronous.ends import direct_agents


def layout(kind="gpu", **more):
    """An agent and a trainer on each of two devices, and a third one with an agent."""
    devices = []
    for index, trains in enumerate((True, True, False)):
        agent = GMI(id=2 * index, roles=("simulator", "agent"), num_env=4, cores=(2 * index,))
        trainer = GMI(id=2 * index + 1, roles=("trainer",), cores=(2 * index + 1,))
        devices.append(Device(kind=kind, index=index, gmis=(agent, trainer) if trains else (agent,)))
    given = {"channels": Channels(), "groups": {"trainers": GmiGroup(members=(3, 1), reduction="MPR-shm")}, **more}
    return Layout(devices=tuple(devices), **given)


@pytest.mark.parametrize("backend", ["process", "mps"])
def test_those_of_its_gpu(backend):
    assert direct_agents(layout(backend=backend)) == ((2,), (0,))


@pytest.mark.parametrize("more", [{"kind": "cpu"}, {"backend": "mig"}, {"channels": Channels(on_gpu=False)}], ids=str)
def test_none_where_nothing_can_be_mapped_or_shall_be(more):
    assert direct_agents(layout(**more)) == ()
