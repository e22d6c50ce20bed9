"""What an agent and its proxy on another host send each other, over a `FramedConnection`.

The agent sends FORWARD and OPEN, receives READY, and then requests each place by LEASE. The reply is GRANTED or
NO_MORE. Experience comes as a PIECE with data behind it; parameters follow a grant if the agent takes them and has not
got that version. An agent of several policies also sends ELSEWHERE. Either end may send FAILURE with an error, and end.
"""

import struct

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND

FORWARD, OPEN, READY, LEASE, GRANTED, NO_MORE, PIECE, BYE, TRAINERS_ALIVE, ELSEWHERE = range(
    FIRST_OTHER_KIND, FIRST_OTHER_KIND + 10
)
"""Kinds of frames.

FORWARD: a message for a trainer. OPEN: what the agent takes, and the sizes of the channels. READY: their memory is
made. LEASE: the agent needs a place. GRANTED: it gets one. NO_MORE: no more experience is needed. PIECE: steps of a
kind. BYE: the agent has sent everything. TRAINERS_ALIVE: a trainer that is waited for has shown that it is alive.
ELSEWHERE: whether the agent waits for trainers of another policy.
"""

RECIPIENT = struct.Struct("<q")
"""Before the text of FORWARD: the id of the trainer's GMI."""

TAKES_PARAMETERS = struct.Struct("<?")
"""Before the text of OPEN: whether the agent takes parameters, else only the numbers of their versions."""

WAITS = struct.Struct("<?")
"""All of ELSEWHERE."""

GRANT = struct.Struct("<4q")
"""The trainer, by rank; the place; the newest version of the parameters; and whether these follow."""

PIECE_HEAD = struct.Struct("<6q")
"""The trainer, by rank, and a `records.Record`."""
