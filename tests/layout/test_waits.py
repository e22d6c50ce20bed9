import pytest

from gmi_drl.files import parse
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.waits import LAUNCHER_S, Waits, waits_of

ACTS, TRAINS, ALL = ["simulator", "agent"], ["trainer"], ["simulator", "agent", "trainer"]


@pytest.mark.parametrize(
    ("roles", "more", "waits"),
    [
        ([ACTS, TRAINS], {"channels": {}}, Waits(experience=1, rank=2, trainer=2, behind=3, longest=3)),
        ([ACTS, TRAINS, TRAINS], {"channels": {}}, Waits(experience=1, rank=2, trainer=3, behind=4, longest=4)),
        ([["simulator"], ["agent"], TRAINS], {}, Waits(experience=2, rank=3, trainer=3, behind=4, longest=4)),
        ([["simulator"], ["agent"], TRAINS, TRAINS], {}, Waits(experience=2, rank=3, trainer=4, behind=5, longest=5)),
        ([ALL, ALL], {}, Waits(experience=0, rank=1, trainer=1, behind=2, longest=1)),
        ([["simulator"], ["agent"]], {}, Waits(experience=0, rank=1, trainer=1, behind=2, longest=2)),
        ([ACTS, ACTS], {}, Waits(experience=0, rank=1, trainer=1, behind=2, longest=1)),
        ([TRAINS, TRAINS], {}, Waits(experience=0, rank=1, trainer=1, behind=2, longest=1)),
    ],
    ids=["channels", "channels, two", "TDG_EX", "TDG_EX, two", "TCG_EX", "TDG", "TCG", "trainers only"],
)
def test_who_may_wait_for_others_is_waited_for_longer(roles, more, waits):
    gmis = [
        {"id": one, "roles": some, "cores": [one], "num_env": int("simulator" in some)}
        for one, some in enumerate(roles)
    ]
    layout = parse(Layout, {"devices": [{"kind": "cpu", "gmis": gmis}], **more}, "layout")
    assert waits_of(layout) == waits
    assert waits.launcher_s(300) == 300 * waits.longest + LAUNCHER_S
