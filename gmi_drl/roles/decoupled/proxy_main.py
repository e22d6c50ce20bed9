"""The process of a proxy: it acts for a GMI of another host towards its trainers.

For an agent, see `comm.channels.proxy`; for a policy worker, `comm.parameters.proxy`.

`python -m gmi_drl.roles.decoupled.proxy_main DESCRIPTOR NAME`, started on the host of the trainers by that host's
supervisor only, and watched as a GMI is. For the arguments see `roles.main`.
"""

import json
import sys
import traceback
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from gmi_drl.processes.signals import leave_to_launcher
from gmi_drl.roles.main import describe, die_with


def main() -> int:
    """Connect to the agent and serve it until it ends; send the launcher the outcome."""
    with open(int(sys.argv[1])) as order_file:
        order = json.load(order_file)
    leave_to_launcher()
    die_with(order["parent"])

    from gmi_drl.errors import GmiError
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Attached, Done

    launcher = LauncherConnection(order["launcher"])
    launcher.deliver(Attached())
    try:
        _serve(order)
    except Exception as error:
        if not isinstance(error, GmiError):
            traceback.print_exc()
        launcher.deliver(describe(error))
        return 1
    launcher.deliver(Done(None))
    return 0


def _serve(order: dict[str, Any]) -> None:
    """Connect and serve. All that imports torch happens here."""
    import torch

    from gmi_drl.comm.channels.proxy import AgentProxy
    from gmi_drl.comm.host_links import PROXY, connect, proxy_group_name, proxy_membership
    from gmi_drl.comm.messages.messages import Messages
    from gmi_drl.comm.parameters.proxy import ParameterProxy
    from gmi_drl.files import load_yaml
    from gmi_drl.layout.layout import Layout
    from gmi_drl.layout.pools import far_readers, proxied
    from gmi_drl.layout.waits import LOADING_S, waits_of
    from gmi_drl.roles.launcher.resources import Resources

    torch.set_num_threads(1)
    gmi_id, hang_s = order["gmi"], order["hang_s"]
    layout = load_yaml(Layout, Path(order["layout"]))
    waits = waits_of(layout)
    resources = Resources.from_order(order["resources"])
    mailboxes, memory = resources.mailboxes, resources.channels
    assert mailboxes is not None and memory is not None
    messages = Messages(mailboxes, gmi_id, hang_s)  # trainers can see this process end from now on
    member = proxy_membership(gmi_id, PROXY, order["home"], hang_s)
    connection = connect(member, resources.rendezvous[proxy_group_name(gmi_id)])
    proxy: AgentProxy | ParameterProxy
    if gmi_id in far_readers(layout):
        asked = proxied(layout)[gmi_id].trainers[0], torch.device("cpu"), LOADING_S / hang_s
        info = partial(messages.recv_while_active, *asked)
        proxy = ParameterProxy(connection, memory, mailboxes, gmi_id, hang_s, info, waits)
    else:
        proxy = AgentProxy(connection, memory, mailboxes, gmi_id, hang_s, messages.send, waits)
    with closing(proxy):
        proxy.serve()


if __name__ == "__main__":
    sys.exit(main())
