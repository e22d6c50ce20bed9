"""How an agent of another host opens its end, with a trainer and its proxy in this process."""

import os
from contextlib import closing
from types import SimpleNamespace

import pytest

from gmi_drl.comm.channels import create_memory, join_as_trainer
from gmi_drl.comm.host_links import AGENT, proxy_group_name
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.layout.waits import waits_of
from gmi_drl.roles.decoupled.trainer_connection import connect_to_trainers
from tests.comm.channels.proxy_pair import ProxyPair
from tests.comm.channels.traced_rollouts import parameters, sizes_of

TRAINER, ACTOR, HANG_S = 0, 1, 60.0


def manager(roles, pair, addresses):
    """What the connection asks of a manager."""
    actor = GMI(id=ACTOR, roles=roles, num_env=1, cores=(0,))
    trainer = GMI(id=TRAINER, roles=("trainer",), num_env=0, cores=(0,))
    devices = [Device(node=node, kind="cpu", gmis=(gmi,)) for node, gmi in (("a", trainer), ("b", actor))]
    layout = Layout(task="ball_balance", template="workers", devices=tuple(devices), channels=Channels())
    meeting = Rendezvous(listener=pair.listeners[AGENT].fileno(), addresses=addresses)
    resources = SimpleNamespace(rendezvous={proxy_group_name(ACTOR): meeting})
    return SimpleNamespace(
        layout=layout, gmi=actor, hang_s=HANG_S, waits=waits_of(layout), device="cpu", resources=resources
    )


@pytest.mark.parametrize(("roles", "acts"), [(("simulator",), False), (("simulator", "agent"), True)])
def test_parameters_go_only_to_an_actor_that_has_an_agent(roles, acts):
    sizes, mailboxes, memory, pair = sizes_of(), create_mailboxes(range(2)), create_memory(), ProxyPair(ACTOR)
    addresses = pair.addresses.to_descriptor()
    thread = pair.serving(memory, mailboxes, HANG_S)
    with closing(join_as_trainer(memory, mailboxes, TRAINER, sizes, HANG_S)) as trainer:
        trainer.parameters.publish(0, parameters())
        with closing(connect_to_trainers(manager(roles, pair, addresses)).open(sizes)) as end:
            assert end.lease() is not None and end.parameters.newest_version() == 0
            assert end._sender._connection.received == sizes.parameter_bytes * acts
        thread.join()
    pair.close()
    mailboxes.close()
    for descriptor in (memory, addresses):
        os.close(descriptor)
