"""What an agent of another host keeps of a rollout that is on its way."""

import threading

import pytest

from gmi_drl.comm.channels.far_agent import FarAgentEnd
from gmi_drl.comm.channels.far_words import GRANT, GRANTED, ROOM
from gmi_drl.errors import PeerSilentError
from gmi_drl.experience import RolloutForm
from tests.comm.channels.far import STAND_IN, Crossing
from tests.comm.channels.rollouts_told import sizes_of

HANG_S = 60.0


def test_memory_is_not_written_again_before_it_was_sent():
    """To a stand-in that reads nothing: the third rollout waits for the memory of the first."""
    crossing, wires = Crossing(1), []
    thread = threading.Thread(target=lambda: wires.append(crossing._wire(STAND_IN)))
    thread.start()
    carrier = crossing.carrier()
    thread.join()
    sizes = sizes_of(form=RolloutForm(horizon=8, num_env=1024, num_obs=1000, num_actions=1))
    wires[0].tell(ROOM)
    end = FarAgentEnd(carrier, sizes, 1.0, HANG_S)
    for place in range(2):
        wires[0].tell(GRANTED, GRANT.pack(0, place, 0, 0))
        leased = end.lease()
        for kind in leased.views:
            leased.wrote_whole(kind)
        leased.commit()
    wires[0].tell(GRANTED, GRANT.pack(0, 2, 0, 0))
    with pytest.raises(PeerSilentError, match="has not taken experience for 1 s"):
        end.lease()
    end.close()
    wires[0].close()
    crossing.close()
