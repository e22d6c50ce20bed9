import json
import os
from contextlib import closing

import pytest
from conftest import open_descriptors

from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.launch.nodes.meeting import Meeting
from gmi_drl.launch.shared_resources import HostResources
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, HOLISTIC, Device, GmiGroup, Layout


def over_two_nodes():
    """A trainer on node a, three agents on node b."""
    trainer = Device(node="a", kind="cpu", gmis=(GMI(id=0, roles=("trainer",), num_env=0, cores=(0,)),))
    agents = (GMI(id=number, roles=("simulator", "agent"), num_env=1, cores=(0,)) for number in (1, 2, 3))
    return Layout(
        share_cores=True, devices=(trainer, Device(node="b", kind="cpu", gmis=tuple(agents))), channels=Channels()
    )


def test_mailboxes_are_for_the_gmis_of_the_host_and_those_that_somebody_stands_in_for():
    with closing(HostResources(over_two_nodes(), 1024, "b", "127.0.0.1")) as agents:
        mailboxes = agents[2].mailboxes
        assert set(mailboxes.eventfds) == {1, 2, 3} and set(mailboxes.descriptors) < agents[2].descriptors
    with closing(HostResources(over_two_nodes(), 1024, "a", "127.0.0.1")) as trainers:
        assert trainers.guests == (1, 2, 3) and set(trainers[0].mailboxes.eventfds) == {0, 1, 2, 3}
        names = {f"channels of GMI {gmi_id}" for gmi_id in (1, 2, 3)}
        assert set(trainers.of_proxies((1, 2, 3)).rendezvous) == names, "one process has all of them"


@pytest.mark.parametrize("count", [64, 256, 1000])
def test_what_is_shared_by_so_many_workers_is_linear_and_small(count):
    """Before they send anything: memory, descriptors, and what each is told."""
    kinds = [("trainer",), ("agent",), *[("simulator",)] * (count - 2)]
    gmis = tuple(GMI(id=number, roles=kind, num_env=int(number > 1), cores=(0,)) for number, kind in enumerate(kinds))
    devices = (Device(kind="cpu", gmis=gmis),)
    layout = Layout(share_cores=True, devices=devices, channels=Channels(), streams=Streams())
    with closing(HostResources(layout, 1024)) as made:
        descriptors = {one for gmi in gmis for one in made[gmi.id].descriptors}
        taken = sum(os.fstat(one).st_blocks * 512 for one in descriptors) + len(json.dumps(made[0].to_order()))
    assert len(descriptors) <= count + 3 and taken / count < 2**10


def test_groups_whose_gmis_have_shards_are_linked_once_more_on_all_hosts():
    before = open_descriptors()
    trainers = {name: GMI(id=number, roles=HOLISTIC, num_env=1, cores=(number,)) for number, name in enumerate("ab")}
    devices = tuple(Device(node=node, kind="cpu", gmis=(gmi,)) for node, gmi in trainers.items())
    layout = Layout(devices=devices, groups={"trainers": GmiGroup(members=(0, 1), reduction="HAR")})
    with (
        closing(HostResources(layout, 1024, "a", "127.0.0.1", links=True)) as first,
        closing(HostResources(layout, 1024, "b", "127.0.0.1", links=True)) as second,
    ):
        everyone = Meeting(layout).joined([first.addresses, second.addresses])
        assert sorted(everyone) == ["link of trainers", "trainers"]
        first.set_addresses({name: RankAddresses(*one) for name, one in everyone.items()})
        points = first[0].rendezvous
        assert set(points["link of trainers"].descriptors) == {"listener", "addresses"}
        assert points["link of trainers"].listener != points["trainers"].listener
    assert open_descriptors() == before
