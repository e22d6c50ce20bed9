"""The process of proxies: it acts for the GMIs of one other host towards the trainers of this one.

For an agent, see `comm.channels.proxy`; for a policy worker, `comm.parameters.proxy`. Each has a thread of its own: its
end disturbs no other.

`python -m gmi_drl.roles.decoupled.proxy_main DESCRIPTOR NAME`, started on the host of the trainers by that host's
supervisor only, and watched as a GMI is. For the arguments see `roles.main`.
"""

import json
import math
import queue
import sys
import threading
import traceback
from contextlib import ExitStack, closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.processes.signals import leave_to_launcher
from gmi_drl.roles.main import describe, die_with

if TYPE_CHECKING:
    from gmi_drl.comm.channels.proxy_host import ProxyHost
    from gmi_drl.layout.layout import Layout
    from gmi_drl.roles.launcher.resources import Resources

STACK_BYTES = 512 * 2**10
"""The stack of a proxy's thread."""

FAREWELL_S = 1.0
"""After an error, seconds for the other proxies to tell their GMIs why they give up."""


def main() -> int:
    """Connect to the GMIs and serve them until all have ended for good; send the launcher the outcome."""
    with open(int(sys.argv[1])) as order_file:
        order = json.load(order_file)
    leave_to_launcher()
    die_with(order["parent"])

    from gmi_drl.errors import GmiError
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Attached, Done

    launcher = LauncherConnection(order["launcher"])
    launcher.deliver(Attached())
    ends, proxies = _serve_all(order)
    for count in range(proxies):
        if (error := ends.get()) is not None:
            if not isinstance(error, GmiError):
                traceback.print_exception(error)
            launcher.deliver(describe(error))
            with suppress(queue.Empty):
                for _ in range(count + 1, proxies):
                    ends.get(timeout=FAREWELL_S)
            return 1
    launcher.deliver(Done(None))
    return 0


def _serve_all(order: dict[str, Any]) -> "tuple[queue.SimpleQueue[Exception | None], int]":
    """Start the proxies, of each GMI one for each policy. All that imports torch is here.

    Returns:
        What gets the outcome of each, None or its error; and how many they are.
    """
    import torch

    from gmi_drl.comm.channels.proxy_host import ProxyHost
    from gmi_drl.comm.host_links import name_for
    from gmi_drl.files import load_yaml
    from gmi_drl.layout.layout import Layout
    from gmi_drl.layout.policies import layouts_of
    from gmi_drl.layout.waits import waits_of
    from gmi_drl.roles.launcher.resources import Resources

    torch.set_num_threads(1)
    layout = load_yaml(Layout, Path(order["layout"]))
    resources = Resources.from_order(order["resources"])
    ends = queue.SimpleQueue[Exception | None]()

    def serve(gmi_id: int, host: ProxyHost, seen: Layout, own: Resources) -> None:
        try:
            _serve(gmi_id, host, seen, own, order["home"], again=order["agents_are_restarted"])
        except Exception as error:
            ends.put(error)
        else:
            ends.put(None)

    threading.stack_size(STACK_BYTES)
    count = 0
    for policy, seen in layouts_of(layout).items():
        own = resources if policy is None else resources.of_policy(policy)
        assert own.mailboxes is not None and own.channels is not None
        host = ProxyHost(own.channels, own.mailboxes, order["hang_s"], waits_of(seen))
        for gmi_id in order["gmis"]:
            name = name_for(policy, f"proxy of GMI {gmi_id}")
            threading.Thread(target=serve, args=(gmi_id, host, seen, own), name=name, daemon=True).start()
            count += 1
    return ends, count


def _serve(
    gmi_id: int, host: "ProxyHost", layout: "Layout", resources: "Resources", home: str, *, again: bool = False
) -> None:
    """Connect to a GMI and serve it until it ends; with `again`, those that are started again, too, without end."""
    import torch

    from gmi_drl.comm.channels.proxy import AgentProxy
    from gmi_drl.comm.host_links import PROXY, connect, listen_again, proxy_group_name, proxy_membership
    from gmi_drl.comm.messages.messages import Messages
    from gmi_drl.comm.parameters.proxy import ParameterProxy
    from gmi_drl.layout.late_nodes import late_actors
    from gmi_drl.layout.pools import far_readers, pool_of
    from gmi_drl.layout.waits import LOADING_S

    is_late, rendezvous = gmi_id in late_actors(layout), resources.rendezvous[proxy_group_name(gmi_id)]
    member = proxy_membership(gmi_id, PROXY, home, math.inf if is_late else host.hang_s)
    if not is_late:
        host.notifier(gmi_id).close()  # trainers can see this process end from now on

    def messages() -> Messages:
        return Messages(host.mailboxes, gmi_id, host.hang_s, memory=host.mapped.mailboxes)

    with ExitStack() as opened:
        if again:
            connections = opened.enter_context(closing(listen_again(member, rendezvous))).in_turn()
        else:
            connections = iter([connect(member, rendezvous)])
        if gmi_id in far_readers(layout):
            inbox = opened.enter_context(closing(messages()))
            asked = pool_of(layout, gmi_id).trainers[0], torch.device("cpu"), LOADING_S / host.hang_s
            info = cache(partial(inbox.recv_while_active, *asked))  # it comes once
            for connection in connections:
                with closing(ParameterProxy(connection, host, gmi_id, info)) as reader:
                    reader.serve()
            return
        outbox: Messages | None = None  # once the agent has come: until then a late one is not there
        for connection in connections:
            outbox = outbox or opened.enter_context(closing(messages()))
            with closing(AgentProxy(connection, host, gmi_id, outbox.send)) as agent:
                agent.serve()


if __name__ == "__main__":
    sys.exit(main())
