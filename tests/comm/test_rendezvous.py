import os
import stat
from contextlib import closing

import pytest
from conftest import open_descriptors

from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.memory.segment import map_segment
from gmi_drl.comm.rendezvous import Rendezvous, RendezvousPoints, shared_bytes
from gmi_drl.errors import MachineError
from gmi_drl.layout.reductions import HAR, MPR_GLOO, MPR_SHM, NONE

UNEVEN = [[0, 1], [4, 2, 3]]


def test_ranks_of_links_share_memory_within_their_device_alone():
    before = open_descriptors()
    with closing(RendezvousPoints(HAR, UNEVEN, 4000)) as points:
        segments = [points[rank].segment for rank in range(5)]
        assert segments[0] == segments[1] != segments[2] == segments[3] == segments[4]
        assert map_segment(segments[0], 2) and map_segment(segments[2], 3)
        (descriptor,) = {points[rank].addresses for rank in range(5)}
        ranks = RankAddresses.from_descriptor(descriptor)
        assert len(set(ranks.addresses)) == 5 and len(ranks.token) == 32
        assert all(stat.S_ISSOCK(os.fstat(points[rank].listener).st_mode) for rank in range(5))
        sizes = [os.fstat(segments[rank]).st_size for rank in (0, 2)]
        assert shared_bytes(HAR, UNEVEN, 4000, range(5)) == sum(sizes)
        assert [shared_bytes(HAR, UNEVEN, 4000, ranks) for ranks in ((1, 0), (2, 3, 4))] == sizes
    assert open_descriptors() == before


def test_others_share_one_segment_or_a_table_and_a_store():
    before = open_descriptors()
    with (
        closing(RendezvousPoints(MPR_SHM, UNEVEN, 4000)) as shared,
        closing(RendezvousPoints(MPR_GLOO, UNEVEN, 1)) as gloo,
    ):
        for points in (shared, gloo):
            assert len({points[rank].segment for rank in range(5)}) == 1 and map_segment(points[0].segment, 5)
        assert len({gloo[rank].store for rank in range(5)}) == 1 and os.fstat(gloo[0].store).st_size == 0
        assert set(shared[0].descriptors) == {"segment"} and set(gloo[0].descriptors) == {"segment", "store"}
        assert os.fstat(gloo[0].segment).st_size < 2**16 < os.fstat(shared[0].segment).st_size, "a table has no slots"
        assert shared_bytes(MPR_SHM, UNEVEN, 4000, range(5)) == os.fstat(shared[0].segment).st_size
        assert shared_bytes(MPR_GLOO, UNEVEN, 1, range(5)) == 0 == shared_bytes(NONE, [[0]], 1, [0])
    assert open_descriptors() == before


def test_a_rendezvous_is_written_as_an_order():
    rendezvous = Rendezvous(segment=5, store=6, addresses=7)
    assert rendezvous.to_order() == {"segment": 5, "store": 6, "addresses": 7}
    assert Rendezvous.from_order(rendezvous.to_order()) == rendezvous and Rendezvous.from_order({}) == Rendezvous()


def test_what_a_method_lacks_is_known():
    assert Rendezvous().lacks(NONE) == [] and Rendezvous(segment=3).lacks(HAR) == ["listener", "addresses"]


def test_failed_rendezvous_leaks_no_descriptor(monkeypatch):
    before = open_descriptors()
    monkeypatch.setattr(
        "gmi_drl.comm.rendezvous.listen", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files"))
    )
    with pytest.raises(MachineError, match=r"cannot be made: Too many open files \(ulimit -n\): use fewer groups"):
        RendezvousPoints(HAR, UNEVEN, 4000)
    with pytest.raises(MachineError, match="use fewer GMIs"):
        RendezvousPoints(MPR_SHM, UNEVEN, 2**50)
    assert open_descriptors() == before
