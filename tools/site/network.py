"""The page of what networks between nodes cost, computed and measured."""

import json

from tools.network_table import MEASURED, measured_table, table, times_the_network
from tools.site.markdown import page

COMPUTED = """
## Computed

Steps/s of 1 to 1,000 nodes of eight H100 over several networks, from the invented points of
[ten machines](../internals/ten_machines.md). Nothing of it was run.
"""
RUN = """
## Measured

Network namespaces of one machine are the hosts, joined by a relay of ours that lets packets wait
(`benchmarks/network/network_cost.py`, as root). Each cell is what a sum took, what the model says of the network as it
is described, and how many times as long it took as the model says of the network that one connection sees. The relay,
in Python, does not reach 10 Gbit/s and has a round trip of 0.2 ms of its own. Eight hosts, their GMIs and the relay
share two cores.
"""


def network_page() -> str:
    """Both tables, with what they show."""
    result = json.loads(MEASURED.read_text())
    times = times_the_network(result)
    words = f"A sum takes {min(times):.2f}x to {max(times):.2f}x the network's own time by the model.\n"
    return page("Networks", COMPUTED, table(), RUN, words, measured_table(result))
