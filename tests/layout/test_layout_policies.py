"""A layout with several policies, as one of them sees it."""

from gmi_drl.files import dump_yaml, load_yaml
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.policies import layout_of, policy_names

LAYOUT = Layout(
    devices=(
        Device(
            kind="cpu",
            gmis=(
                GMI(id=0, roles=("simulator",), num_env=8, cores=(0,)),
                GMI(id=1, roles=("trainer",), cores=(1,), policy="a"),
                GMI(id=2, roles=("trainer",), cores=(2,), policy="b"),
                GMI(id=3, roles=("agent",), cores=(3,), policy="b"),
            ),
        ),
    ),
    groups={"trainers-a": GmiGroup(members=(1,)), "trainers-b": GmiGroup(members=(2,))},
)


def test_a_policy_sees_its_own_gmis_its_group_and_its_rows():
    assert policy_names(LAYOUT) == ("a", "b")
    seen = layout_of(LAYOUT, "b", (1, 4))
    assert [gmi.roles for gmi in seen.gmis] == [("simulator",), (), ("trainer",), ("agent",)]
    assert seen.gmis[0].num_env == 2 and policy_names(seen) == ("a",)
    assert {name: group.members for name, group in seen.groups.items()} == {"trainers": (2,)}


def test_it_is_a_layout_that_can_be_written_and_read(tmp_path):
    seen, file = layout_of(LAYOUT, "a", (3, 4)), tmp_path / "layout.yaml"
    file.write_text(dump_yaml(seen))
    assert load_yaml(Layout, file) == seen
