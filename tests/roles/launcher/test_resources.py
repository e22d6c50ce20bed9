import json

from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.roles.launcher.resources import Resources


def test_resources_come_through_an_order():
    rendezvous = {"trainers": Rendezvous(segment=5, store=4), "all": Rendezvous(segment=6, listener=7, addresses=8)}
    whole = Resources(rendezvous, Mailboxes(3, {1: 9, 4: 10}))
    for resources in (whole, Resources()):
        assert Resources.from_order(json.loads(json.dumps(resources.to_order()))) == resources
    assert whole.descriptors == {3, 4, 5, 6, 7, 8, 9, 10} and not Resources().descriptors


def test_one_of_several_policies_has_its_connections_by_their_plain_names_and_wakes_its_own_proxies():
    ends = ("channels of GMI 4 for chasers", "channels of GMI 4 for runners", "stream of GMI 4 for chasers")
    rendezvous = {name: Rendezvous(listener=number) for number, name in enumerate(ends, 20)}
    policies = {"chasers": {"channels": 5, "streams": 6}, "runners": {"channels": 7, "streams": 8}}
    guests = {"chasers": {4: 11}, "runners": {4: 12}}
    whole = Resources(rendezvous, Mailboxes(3, {1: 9, 4: 10}), policies=policies, guests=guests)
    assert Resources.from_order(json.loads(json.dumps(whole.to_order()))) == whole
    assert whole.descriptors == {3, 5, 6, 7, 8, 9, 10, 11, 12, 20, 21, 22}
    chasers, runners = whole.of_policy("chasers"), whole.of_policy("runners")
    assert {name: one.listener for name, one in chasers.rendezvous.items()} == {
        "channels of GMI 4": 20,
        "stream of GMI 4": 22,
    }
    assert list(runners.rendezvous) == ["channels of GMI 4"] and (runners.channels, runners.streams) == (7, 8)
    assert (chasers.mailboxes.eventfds, runners.mailboxes.eventfds) == ({1: 9, 4: 11}, {1: 9, 4: 12})
    moved = whole.with_descriptors({one: 100 + one for one in whole.descriptors})
    assert moved.descriptors == {100 + one for one in whole.descriptors}
