"""What an agent and its stand-in on another host say to each other, over a `comm.links.wire.Wire`.

The agent says TELL and OPEN, hears ROOM, and then asks for each place by LEASE. The answer is a GRANT, or that there
is no more. Experience comes as a PIECE, what it is, and numbers behind it; so do parameters with a grant, where the
agent has not got that version. Either may say LOST and why, and end.
"""

import struct

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND

TELL, OPEN, ROOM, LEASE, GRANTED, NO_MORE, PIECE, BYE, STILL = range(FIRST_OTHER_KIND, FIRST_OTHER_KIND + 9)
"""Kinds of words.

TELL: a message to a trainer. OPEN: the sizes of the channels. ROOM: they have their memory. LEASE: a place is wanted.
GRANTED: here it is. NO_MORE: no more experience is needed. PIECE: steps of a kind. BYE: that was all.
STILL: a trainer that is waited for is not silent.
"""

TO = struct.Struct("<q")
"""Before the text of a TELL: the id of the trainer's GMI."""

GRANT = struct.Struct("<4q")
"""The trainer, by rank; the place; the newest version of the parameters, and whether these follow."""

PIECE_OF = struct.Struct("<6q")
"""The trainer, by rank, and a `records.Record`."""
