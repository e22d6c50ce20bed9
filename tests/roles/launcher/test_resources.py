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
