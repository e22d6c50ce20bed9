import pytest

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.layout import Layout


def gmi(id, cores, **more):
    return {"id": id, "num_env": 8, "cores": cores, **more}


def layout(*gmis, **more):
    return parse(Layout, {"devices": [{"kind": "cpu", "gmis": list(gmis)}], **more}, "layout")


@pytest.mark.parametrize(
    ("gmis", "more", "message"),
    [
        ([gmi(0, [0]), gmi(0, [1])], {}, "GMI ids must be 0..1"),
        ([gmi(0, [0]), gmi(1, [0])], {}, r"core 0 is given to GMIs \[0, 1\]"),
        ([gmi(0, [])], {}, "GMI 0 has no cores"),
        ([gmi(0, [0], num_env=0)], {}, "num_env must be at least 1"),
        ([gmi(0, [0])], {"groups": {"all": [0, 3]}}, "group 'all' must list existing GMIs"),
        ([gmi(0, [0])], {"groups": {"../victim/notes": [0]}}, "group '../victim/notes': its name must be letters"),
        ([gmi(0, [0])], {"groups": {"": [0]}}, "group '': its name must be letters"),
        ([gmi(0, [0])], {"groups": {"all\n": [0], "a.b": [0]}}, r"'all\\n': its name must .*'a\.b': its name must"),
        ([gmi(0, [0]), gmi(1, [1])], {"groups": {"all": [0, 1]}}, "reduction 'none' is for groups of 1, not 2"),
        ([], {}, "at least 1 item"),
        ([gmi(0, [0], roles=["agent", "trainer", "agent"])], {}, "given twice: agent"),
    ],
)
def test_what_contradicts_itself_is_refused(gmis, more, message):
    with pytest.raises(UsageError, match=message):
        layout(*gmis, **more)


def test_gmis_environments_and_devices():
    two = layout(gmi(1, [1]), gmi(0, [0]))
    assert [g.id for g in two.gmis] == [0, 1] and two.num_env == 16 and two.device_of(1).kind == "cpu"


def test_the_digest_leaves_projection_and_reasons_out():
    plain = layout(gmi(0, [0]))
    explained = layout(gmi(0, [0]), reasons=["because"], projection={"measured": False})
    assert plain.digest == explained.digest != layout(gmi(0, [1])).digest


def test_the_digest_does_not_see_defaults_written_out_nor_the_order_of_keys_and_roles():
    plain = layout(gmi(0, [0]), reduction="MPR-shm", groups={"a": [0], "b": [0]})
    roles = ["trainer", "simulator", "agent"]
    written = {"threads": None, "roles": roles, **dict(reversed(gmi(0, [0]).items()))}
    explicit = layout(written, groups={"b": [0], "a": [0]}, version=1, backend="process", reduction="MPR-shm")
    assert plain.digest == explicit.digest and layout(gmi(0, [0], roles=["trainer"])).digest != plain.digest


def test_a_field_that_a_later_version_adds_does_not_change_the_digest():
    class Later(Layout):
        elastic: bool = False

    plain = layout(gmi(0, [0]))
    later = parse(Later, plain.model_dump(mode="json"), "layout")
    assert later.digest == plain.digest != later.model_copy(update={"elastic": True}).digest


def test_roles_are_a_set():
    given = layout(gmi(0, [0], roles=["agent", "simulator", "trainer"]), gmi(1, [1], roles=["trainer", "simulator"]))
    assert [g.roles for g in given.gmis] == [("simulator", "agent", "trainer"), ("simulator", "trainer")]


def test_parts_of_every_gmi_are_checked_together():
    with pytest.raises(UsageError, match=r"GMI 0 has no cores.*GMI 1 has the simulator's role"):
        layout(gmi(0, []), gmi(1, [0], num_env=0))
