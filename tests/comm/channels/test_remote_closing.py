"""How long an agent waits, at its end, for what it has sent to another host."""

import threading
import time
from select import POLLIN, poll

from gmi_drl.comm.channels.remote_agent import RemoteAgentEnd
from gmi_drl.comm.channels.remote_protocol import GRANT, GRANTED, LEASE, OPEN, READY
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector
from tests.comm.channels.proxy_pair import PROXY, ProxyPair
from tests.comm.channels.traced_rollouts import sizes_of

CLOSED_S = 60.0
HANG_S = 3.0


def run_proxy(proxy_pair, is_over):
    """One that grants a place and then takes what comes, but slowly: all of it would take minutes."""
    connection = proxy_pair._connection(PROXY)
    looking = poll()
    looking.register(connection, POLLIN)
    is_asked = False
    while not is_asked:
        looking.poll()
        for kind, _ in connection.read():
            if kind == OPEN:
                connection.send_frame(READY)
            if kind == LEASE:
                connection.send_frame(GRANTED, GRANT.pack(0, 0, 0, False))
                is_asked = True
    connection._socket.setblocking(True)
    while not is_over.wait(0.05):
        connection._socket.recv(2**16)
    connection.close()


def test_who_ends_over_a_slow_link_waits_for_one_deadline_in_all():
    proxy_pair, is_over = ProxyPair(1), threading.Event()
    threading.Thread(target=run_proxy, args=(proxy_pair, is_over), daemon=True).start()
    form = RolloutForm(horizon=2, num_env=2**16, observation=vector(256), action=continuous(1))
    end = RemoteAgentEnd(proxy_pair.sender(), sizes_of(form=form), HANG_S, 3, CLOSED_S)
    place = end.lease()
    for kind in place.views:
        place.wrote_whole(kind)
    began = time.monotonic()
    closing = threading.Thread(target=end.close, daemon=True)
    closing.start()
    closing.join(CLOSED_S)
    assert not closing.is_alive() and time.monotonic() - began >= HANG_S
    is_over.set()
    proxy_pair.close()
