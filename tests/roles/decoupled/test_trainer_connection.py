"""How an agent of another host opens its end, with a trainer and its proxy in this process."""

import os
from contextlib import closing
from types import SimpleNamespace

import pytest

from gmi_drl.comm.channels import create_memory, join_as_trainer
from gmi_drl.comm.host_links import AGENT
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.layout.waits import waits_of
from gmi_drl.roles.decoupled.trainer_connection import connect_to_trainers
from tests.comm.channels.proxy_pair import ProxyPair
from tests.comm.channels.traced_rollouts import parameters, sizes_of
from tests.roles.decoupled.two_nodes import ACTOR, TRAINER, layout_of, resources_of

HANG_S = 60.0


def manager(roles, resources):
    """What the connection asks of a manager."""
    layout = layout_of(roles)
    actor, waits = layout.with_role("simulator")[0], waits_of(layout)
    own = {"waits": waits, "device": "cpu", "resources": resources, "predecessors": 0}
    return SimpleNamespace(layout=layout, gmi=actor, hang_s=HANG_S, **own)


@pytest.mark.parametrize(("roles", "acts"), [(("simulator",), False), (("simulator", "agent"), True)])
def test_parameters_go_only_to_an_actor_that_has_an_agent(roles, acts):
    sizes, mailboxes, memory, pair = sizes_of(), create_mailboxes(range(2)), create_memory(), ProxyPair(ACTOR)
    addresses = pair.addresses.to_descriptor()
    thread = pair.serving(memory, mailboxes, HANG_S)
    with closing(join_as_trainer(memory, mailboxes, TRAINER, sizes, HANG_S)) as trainer:
        trainer.parameters.publish(0, parameters())
        trainers = connect_to_trainers(manager(roles, resources_of(pair, AGENT, addresses)))
        with closing(trainers.open(sizes)) as end:
            assert end.lease() is not None and end.parameters.newest_version() == 0
            assert end._sender._connection.received == sizes.parameter_bytes * acts
        thread.join()
    pair.close()
    mailboxes.close()
    for descriptor in (memory, addresses):
        os.close(descriptor)
