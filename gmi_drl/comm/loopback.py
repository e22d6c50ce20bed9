"""Whether this machine can connect to itself, which ranks of one host need if they meet by sockets."""

import socket

from gmi_drl.errors import MachineError

LOOPBACK = "127.0.0.1"
_REACH_S = 10.0


def require_loopback() -> None:
    """Open a connection of this process to itself.

    Raises:
        MachineError: If the loopback interface does not carry it. Without this check an error would blame a peer.
    """
    try:
        with (
            socket.create_server((LOOPBACK, 0)) as listener,
            socket.create_connection(listener.getsockname(), _REACH_S),
        ):
            pass
    except OSError as error:
        remedy = "bring the loopback interface up (`ip link set lo up`), or sum by MPR-shm, which needs none"
        raise MachineError(f"this machine does not reach itself at {LOOPBACK}: {error.strerror}: {remedy}") from error
