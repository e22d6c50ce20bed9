"""A proxy as its process serves it, without the process."""

import os
import threading

import pytest

from gmi_drl.comm.channels import create_memory
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.channels.remote_protocol import FORWARD
from gmi_drl.comm.host_links import PROXY
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import GmiError
from gmi_drl.roles.decoupled.proxy_main import _serve
from tests.comm.channels.proxy_pair import ProxyPair
from tests.roles.decoupled.two_nodes import ACTOR, layout_of, resources_of

HANG_S = 60.0


def test_a_message_that_is_too_long_is_refused_by_the_name_of_who_has_sent_it():
    mailboxes, memory, pair, told = create_mailboxes(range(2)), create_memory(), ProxyPair(ACTOR), []
    addresses = pair.addresses.to_descriptor()

    def send():
        sender = pair.sender()
        sender.send(FORWARD, bytes(2**20 + 1))
        try:
            sender.wait_for(lambda: False, "told why", HANG_S)
        except GmiError as error:
            told.append(str(error))
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    refused = f"GMI {ACTOR} sent a damaged frame: a message of 1048577 bytes came, 1048576 are the most"
    with pytest.raises(GmiError, match=refused):
        _serve(ACTOR, ProxyHost(memory, mailboxes, HANG_S), layout_of(), resources_of(pair, PROXY, addresses), "home")
    thread.join()
    assert told == [refused]
    pair.close()
    mailboxes.close()
    for descriptor in (memory, addresses):
        os.close(descriptor)


def test_an_agent_that_has_died_may_connect_again():
    """Its proxy ends with the run, or here by what the second process sends."""
    mailboxes, memory, pair, told = create_mailboxes(range(2)), create_memory(), ProxyPair(ACTOR), []
    addresses = pair.addresses.to_descriptor()

    def live():
        for pair.predecessors in range(2):
            sender = pair.sender()
            if pair.predecessors:
                sender.send(FORWARD, bytes(2**20 + 1))
                with pytest.raises(GmiError, match="1048576 are the most"):
                    sender.wait_for(lambda: False, "told why", HANG_S)
                told.append(pair.predecessors)
            sender.close()

    thread = threading.Thread(target=live)
    thread.start()
    resources = resources_of(pair, PROXY, addresses)
    with pytest.raises(GmiError, match="1048576 are the most"):
        _serve(ACTOR, ProxyHost(memory, mailboxes, HANG_S), layout_of(), resources, "home", again=True)
    thread.join()
    assert told == [1]
    pair.close()
    mailboxes.close()
    for descriptor in (memory, addresses):
        os.close(descriptor)
