"""What the GMIs of a layout share: memory, connections and mailboxes, made before they start."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from gmi_drl.comm.spots import Spot, Spots
from gmi_drl.layout import Layout
from gmi_drl.memory.post import create_post
from gmi_drl.reductions import REDUCTIONS
from gmi_drl.roles.resources import Resources


@contextmanager
def shared_resources(layout: Layout, meeting: Path, slot_bytes: int) -> Iterator[Mapping[int, Resources]]:
    """Make them for the time of a `with` block in which the GMIs are started; yields those of each GMI, by its id.

    What nobody has inherited by its end is gone.

    Args:
        layout: Of the GMIs.
        meeting: A folder where groups may meet.
        slot_bytes: Shared memory for each GMI and group.

    Raises:
        MachineError: If there is no room for it, or there are too many descriptors.
    """
    spots: dict[int, dict[str, Spot]] = {gmi.id: {} for gmi in layout.gmis}
    with ExitStack() as kept:
        post = kept.enter_context(closing(create_post(len(layout.gmis))))
        for name, group in layout.groups.items():
            if len(group.members) > 1:
                method, mapping = REDUCTIONS.find(group.reduction), layout.ranks_by_device(name)
                made = kept.enter_context(closing(Spots(method, mapping, slot_bytes, meeting / name)))
                for rank, gmi_id in enumerate(group.members):
                    spots[gmi_id][name] = made[rank]
        yield {gmi_id: Resources(own, post) for gmi_id, own in spots.items()}
