"""The process that stands in for an agent of another host (`comm.channels.stand_in`).

`python -m gmi_drl.roles.asynchronous.stand_in DESCRIPTOR NAME`, started on the host of the trainers by its agent and
nobody else. The descriptor is that of a file with the order, `{"gmi": 3, ...}`; the name is for those who look at
processes.
"""

import json
import signal
import sys
from contextlib import closing

from gmi_drl.roles.child import die_with


def main() -> int:
    """Meet the agent and do as it says, until it ends."""
    with open(int(sys.argv[1])) as paper:
        order = json.load(paper)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher
    die_with(order["parent"])

    import torch

    from gmi_drl.comm.channels.stand_in import StandIn
    from gmi_drl.comm.crossings import AGENT, STAND_IN, crossing_of, member_of
    from gmi_drl.comm.links.meeting import Meeting, meet
    from gmi_drl.comm.messages.messages import Messages
    from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError
    from gmi_drl.roles.resources import Resources

    torch.set_num_threads(1)
    gmi_id, hang_s = order["gmi"], order["hang_s"]
    resources = Resources.from_order(order["resources"])
    spot, post, memory = resources.spots[crossing_of(gmi_id)], resources.post, resources.channels
    assert post is not None and memory is not None and spot.meeting is not None and spot.listener is not None
    try:
        messages = Messages(post, gmi_id, hang_s)  # trainers can see this process end from now on
        member = member_of(gmi_id, STAND_IN, order["home"], hang_s)
        wire = meet(member, Meeting.read(spot.meeting), spot.listener)[AGENT]
        with closing(StandIn(wire, memory, post, gmi_id, hang_s, messages.send)) as stand_in:
            stand_in.serve()
    except (PeerDiedError, PeerSilentError):
        return 1  # the agent tells it; this log is the trainers', whose own last words are to be seen
    except GmiError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
