"""Numbers and names of the processes of a run: GMIs, and those of proxies, which act for GMIs of another host.

The number of a GMI is its id, from 0; that of a process of proxies is negative, and follows from its first GMI.
"""

from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import proxy_processes


def proxy_of(gmi_id: int) -> int:
    """The number of the process of proxies whose first GMI this is. It is on the host of its trainers."""
    return -1 - gmi_id


def is_proxy(number: int) -> bool:
    """Whether a process is one of proxies."""
    return number < 0


def gmi_of(number: int) -> int:
    """The id of the GMI that a process is, or of the first one that has its proxy there."""
    return -1 - number if is_proxy(number) else number


def name_of(number: int) -> str:
    """The name of a process in messages.

    >>> name_of(3), name_of(proxy_of(3))
    ('GMI 3', 'the proxy of GMI 3')
    """
    return f"the proxy of GMI {gmi_of(number)}" if is_proxy(number) else f"GMI {number}"


def name_in(layout: Layout, number: int) -> str:
    """`name_of`, with all GMIs that have their proxy in that process: "the proxy of GMIs 2, 3"."""
    if not is_proxy(number) or len(gmis := proxy_processes(layout)[gmi_of(number)]) == 1:
        return name_of(number)
    return f"the proxy of GMIs {', '.join(map(str, gmis))}"


def file_name_of(number: int) -> str:
    """The name of a process in names of files.

    >>> file_name_of(3), file_name_of(proxy_of(3))
    ('gmi-3', 'gmi-3-proxy')
    """
    return f"gmi-{gmi_of(number)}" + "-proxy" * is_proxy(number)
