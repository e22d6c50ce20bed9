"""Sockets that take a large message at once, whatever their peer does: the system sends it while the process works."""

import socket
from contextlib import suppress

_SO_SNDBUFFORCE = 32  # of Linux: Python's `socket` has no name for it
_DOUBLED = 2  # the system sets twice what is asked for, for its own records of the bytes
_MOST_BYTES = 2**30 - 1


def ask_for_room(connection: socket.socket, nbytes: int) -> None:
    """Ask for a socket that takes `nbytes` while its peer reads nothing.

    It gets at most `net.core.wmem_max`, or any size with CAP_NET_ADMIN. If that is too little, it stays as it is: the
    system lets it grow with what the connection carries, up to `net.ipv4.tcp_wmem`, but not once a size was set.
    """
    nbytes = min(nbytes, _MOST_BYTES)
    if _has_room(connection, nbytes):
        return
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, nbytes)
        return
    with suppress(OSError), socket.socket(connection.family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, nbytes)
        if _has_room(trial, nbytes):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, nbytes)


def _has_room(connection: socket.socket, nbytes: int) -> bool:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= _DOUBLED * nbytes
