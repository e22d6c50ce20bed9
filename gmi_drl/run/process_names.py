"""What the processes of a run are called: GMIs, and those that stand in for a GMI of another host.

Each has a number. A GMI's is its id, from 0; that of who stands in for it is negative.
"""


def proxy_of(gmi_id: int) -> int:
    """The number of the process that stands in for a GMI on the host of its trainers."""
    return -1 - gmi_id


def is_proxy(number: int) -> bool:
    """Whether a process stands in for a GMI."""
    return number < 0


def gmi_of(number: int) -> int:
    """The id of the GMI that a process is, or stands in for."""
    return -1 - number if is_proxy(number) else number


def name_of(number: int) -> str:
    """What errors call a process.

    >>> name_of(3), name_of(proxy_of(3))
    ('GMI 3', 'the proxy of GMI 3')
    """
    return f"the proxy of GMI {gmi_of(number)}" if is_proxy(number) else f"GMI {number}"


def file_name_of(number: int) -> str:
    """What files call it.

    >>> file_name_of(3), file_name_of(proxy_of(3))
    ('gmi-3', 'gmi-3-proxy')
    """
    return f"gmi-{gmi_of(number)}" + "-proxy" * is_proxy(number)
