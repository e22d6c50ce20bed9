"""Numbers and names of the processes of a run: GMIs, and proxies, each of which acts for a GMI of another host.

The number of a GMI is its id, from 0; that of a proxy is negative.
"""


def proxy_of(gmi_id: int) -> int:
    """The number of the proxy of a GMI, which is on the host of its trainers."""
    return -1 - gmi_id


def is_proxy(number: int) -> bool:
    """Whether a process is a proxy."""
    return number < 0


def gmi_of(number: int) -> int:
    """The id of the GMI that a process is, or is the proxy of."""
    return -1 - number if is_proxy(number) else number


def name_of(number: int) -> str:
    """The name of a process in messages.

    >>> name_of(3), name_of(proxy_of(3))
    ('GMI 3', 'the proxy of GMI 3')
    """
    return f"the proxy of GMI {gmi_of(number)}" if is_proxy(number) else f"GMI {number}"


def file_name_of(number: int) -> str:
    """The name of a process in names of files.

    >>> file_name_of(3), file_name_of(proxy_of(3))
    ('gmi-3', 'gmi-3-proxy')
    """
    return f"gmi-{gmi_of(number)}" + "-proxy" * is_proxy(number)
