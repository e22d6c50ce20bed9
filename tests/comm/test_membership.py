import pytest

from gmi_drl.comm.membership import Membership
from gmi_drl.errors import UsageError


def test_a_member_knows_its_neighbours_and_names():
    member = Membership(3, [[3, 0], [2, 1]], names=("GMI 7", "GMI 5", "GMI 6", "GMI 4"))
    assert (member.size, member.local_ranks, member.name(3)) == (4, (3, 0), "GMI 4")
    assert Membership(1, [range(3)]).local_ranks == (0, 1, 2) and Membership(1, [range(3)]).name(2) == "rank 2"


@pytest.mark.parametrize(
    ("rank", "mapping", "names", "said"),
    [
        (0, [[0, 1], [3]], (), "a group of 3 has ranks 0 to 2, each on a device, not"),
        (2, [[0, 1]], (), "rank 2 is not in a group of 2"),
        (-1, [[0, 1]], (), "rank -1 is not in a group of 2"),
        (0, [[0, 1], [1]], (), "GMI 1 is on device 0 and again on 1"),
        (0, [[0, 1]], ("GMI 0",), "one name for each rank or none, not 1"),
    ],
)
def test_what_is_no_membership_is_refused(rank, mapping, names, said):
    with pytest.raises(UsageError, match=said):
        Membership(rank, mapping, names)
