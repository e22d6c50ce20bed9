"""A trainer, and an actor of another node, as their layout has them."""

from types import SimpleNamespace

from gmi_drl.comm.host_links import proxy_group_name
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import GMI, Device, Layout

TRAINER, ACTOR = 0, 1


def layout_of(roles=("simulator", "agent")):
    actor = GMI(id=ACTOR, roles=roles, num_env=1, cores=(0,))
    trainer = GMI(id=TRAINER, roles=("trainer",), num_env=0, cores=(0,))
    devices = [Device(node=node, kind="cpu", gmis=(gmi,)) for node, gmi in (("a", trainer), ("b", actor))]
    return Layout(task="ball_balance", template="workers", devices=tuple(devices), channels=Channels())


def resources_of(pair, rank, addresses):
    """Where the actor and its proxy meet, as one of them knows it."""
    meeting = Rendezvous(listener=pair.listeners[rank].fileno(), addresses=addresses)
    return SimpleNamespace(rendezvous={proxy_group_name(ACTOR): meeting})
