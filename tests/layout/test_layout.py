import pytest

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.layout.backends import BACKENDS, BackendEntry
from gmi_drl.layout.layout import GMI, Layout


def gmi(id, cores, **more):
    return {"id": id, "num_env": 8, "cores": cores, **more}


def layout(*gmis, **more):
    return parse(Layout, {"devices": [{"kind": "cpu", "gmis": list(gmis)}], **more}, "layout")


def together(*members, name="all"):
    return {"groups": {name: {"members": members}}}


@pytest.mark.parametrize(
    ("gmis", "more", "message"),
    [
        ([gmi(0, [0]), gmi(0, [1])], {}, "GMI ids must be 0..1"),
        ([gmi(0, [0]), gmi(1, [0])], {}, r"core 0 is given to GMIs \[0, 1\]"),
        ([gmi(0, [])], {}, "GMI 0 has no cores"),
        ([gmi(0, [0], num_env=0)], {}, "num_env must be at least 1"),
        ([gmi(0, [0])], together(0, 3), "group 'all' must list existing GMIs"),
        (
            [gmi(0, [0])],
            together(0, name="../victim/notes"),
            "group '../victim/notes': its name must be letters",
        ),
        ([gmi(0, [0])], together(0, name=""), "group '': its name must be letters"),
        ([gmi(0, [0])], together(0, name="all\n"), r"'all\\n': its name must"),
        ([gmi(0, [0])], together(0, name="a.b"), r"'a\.b': its name must"),
        (
            [gmi(0, [0]), gmi(1, [1])],
            together(0, 1),
            "group 'all': reduction 'none' is for a GMI alone, not for 2",
        ),
        ([], {}, "at least 1 item"),
        ([gmi(0, [0], roles=["agent", "trainer", "agent"])], {}, "given twice: agent"),
        ([gmi(0, [0])], {"backend": "proces"}, "there is no backend 'proces'; did you mean 'process'"),
        ([gmi(0, [0], share=1.1)], {}, "less than or equal to 1"),
        ([gmi(0, [0], memory_limit_bytes=0)], {}, "greater than or equal to 1"),
        (
            [gmi(0, [0]), gmi(1, [1], share=0.5, mig_profile="1g.10gb")],
            {},
            "GMI 1 has a mig_profile, which backend 'process' does not enforce: leave it out.*"
            "GMI 1 has a share, which backend 'process' does not enforce",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(gmis, more, message):
    with pytest.raises(UsageError, match=message):
        layout(*gmis, **more)


def devices(*counts, kinds=None):
    """Devices with so many GMIs, all of which have the one core."""
    ids = iter(range(sum(counts)))
    kinds = kinds or ["cpu"] * len(counts)
    return {
        "share_cores": True,
        "devices": [
            {"kind": kind, "index": index, "gmis": [gmi(next(ids), [0]) for _ in range(count)]}
            for index, (kind, count) in enumerate(zip(kinds, counts, strict=True))
        ],
    }


def grouped(reduction, *members):
    return {"groups": {"all": {"members": members, "reduction": reduction}}}


def test_cores_are_shared_where_the_layout_says_so():
    shared = parse(Layout, devices(2, 3) | grouped("HAR", *range(5)), "layout")
    assert [gmi.cores for gmi in shared.gmis] == [(0,)] * 5 and shared.ranks_by_device("all") == [[0, 1], [2, 3, 4]]
    with pytest.raises(UsageError, match=r"core 0 is given to GMIs \[0, 1\]: give each its own, or say `share_cores"):
        layout(gmi(0, [0]), gmi(1, [0]))


def test_ranks_are_places_in_the_members():
    mixed = parse(Layout, devices(2, 2) | grouped("MRR", 3, 0, 2, 1), "layout")
    assert mixed.ranks_by_device("all") == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("counts", "kinds", "reduction", "said"),
    [
        ((2, 3), None, "MRR", "'MRR' needs as many GMIs on every device, not 2 and 3: use MPR-shm, MPR-gloo, HAR"),
        ((3, 3), None, "MRR", "needs at most as many GMIs per device as devices, not 3 on 2: use MPR-shm"),
        ((1, 1), ["cpu", "gpu"], "MPR-shm", "group 'all': its GMIs are on cpu and gpu, which round differently"),
        ((2,), None, "IPC", "reduction 'IPC' is for GMIs on GPUs, not on cores: use MPR-shm"),
        ((2,), None, "NCCL-flat", "reduction 'NCCL-flat' is for GMIs on GPUs, not on cores: use MPR-shm"),
        ((1, 1), ["gpu", "gpu"], "IPC", "reduction 'IPC' is for GMIs of one GPU, not of 2 devices"),
        ((1, 1), None, "MPR-sh", "there is no reduction 'MPR-sh'; did you mean 'MPR-shm'"),
    ],
)
def test_reductions_that_cannot_be_are_refused(counts, kinds, reduction, said):
    with pytest.raises(UsageError) as caught:
        parse(Layout, devices(*counts, kinds=kinds) | grouped(reduction, *range(sum(counts))), "layout")
    assert said in str(caught.value)


def test_a_file_of_version_1_is_told_what_has_changed():
    with pytest.raises(UsageError) as caught:
        layout(gmi(0, [0]), version=1, reduction="MPR-shm", algo="ppo", groups={"all": [0]})
    said = str(caught.value)
    assert "version: this gmi-drl reads 2, not 1: make it anew, or use the gmi-drl that made it" in said
    its_own = "each group has its own reduction: `groups: {trainers: {members: [0, 1], reduction: MPR-shm}}`"
    assert f"\n  reduction: of version 1, today {its_own}\n" in said
    assert f"\n  groups.all: of version 1, today {its_own}\n" in said
    assert "algo: of version 1, today the configuration says what learns: `--algo`" in said


def test_gmis_environments_and_devices():
    two = layout(gmi(1, [1]), gmi(0, [0]))
    assert [g.id for g in two.gmis] == [0, 1] and two.num_env == 16 and two.device_of(1).kind == "cpu"


def test_the_digest_leaves_projection_and_reasons_out():
    plain = layout(gmi(0, [0]))
    explained = layout(gmi(0, [0]), reasons=["because"], projection={"measured": False})
    assert plain.digest == explained.digest != layout(gmi(0, [1])).digest


def test_the_digest_does_not_see_defaults_written_out_nor_the_order_of_keys_and_roles():
    plain = layout(gmi(0, [0]), groups={"a": {"members": [0]}, "b": {"members": [0], "reduction": "MPR-shm"}})
    roles = ["trainer", "simulator", "agent"]
    written = {"threads": None, "share": None, "roles": roles, **dict(reversed(gmi(0, [0]).items()))}
    groups = {"b": {"reduction": "MPR-shm", "members": [0]}, "a": {"members": [0], "reduction": "none"}}
    explicit = layout(written, groups=groups, version=2, backend="process")
    assert plain.digest == explicit.digest and layout(gmi(0, [0], roles=["trainer"])).digest != plain.digest


def test_a_field_that_a_later_version_adds_does_not_change_the_digest():
    class Later(Layout):
        elastic: bool = False

    plain = layout(gmi(0, [0]))
    later = parse(Later, plain.model_dump(mode="json"), "layout")
    assert later.digest == plain.digest != later.model_copy(update={"elastic": True}).digest


def test_what_a_backend_enforces_may_be_asked_of_it(monkeypatch):
    entry = BackendEntry("process", "in a test", "unused:Unused", coexists=False, enforces=frozenset({"share"}))
    monkeypatch.setattr(BACKENDS, "_own", {"process": entry})
    half = layout(gmi(0, [0], share=0.5))
    assert half.gmis[0].share == 0.5 and half.digest != layout(gmi(0, [0])).digest
    with pytest.raises(UsageError, match="memory_limit_bytes"):
        layout(gmi(0, [0], share=0.5, memory_limit_bytes=1))


def test_roles_are_a_set():
    given = layout(gmi(0, [0], roles=["agent", "simulator", "trainer"]), gmi(1, [1], roles=["trainer", "simulator"]))
    assert [g.roles for g in given.gmis] == [("simulator", "agent", "trainer"), ("simulator", "trainer")]


def test_parts_of_every_gmi_are_checked_together():
    with pytest.raises(UsageError, match=r"GMI 0 has no cores.*GMI 1 has the simulator's role"):
        layout(gmi(0, []), gmi(1, [0], num_env=0))


def on_nodes(*names, core=0, **more):
    """A GMI on core 0 of each node."""
    listed = [{"node": name, "kind": "cpu", "gmis": [gmi(id, [core])]} for id, name in enumerate(names)]
    return parse(Layout, {"devices": listed, **more}, "layout")


def test_indices_of_devices_and_cores_count_within_a_node():
    layout = on_nodes("a", "b")
    assert layout.nodes == ("a", "b")
    with pytest.raises(UsageError, match=r"device cpu 0 on node a is listed 2 times.*core 0 on node a is given"):
        on_nodes("a", "a")


@pytest.mark.parametrize("name", [None, "", "a b", "../a", "a\n"])
def test_every_device_of_several_nodes_names_its_own(name):
    with pytest.raises(UsageError, match="every device names its node"):
        on_nodes("a", name)


def test_devices_with_one_index_on_two_nodes_are_two():
    layout = on_nodes("a", "b", groups={"all": {"members": [0, 1], "reduction": "HAR"}})
    assert layout.ranks_by_device("all") == [[0], [1]]


def test_what_needs_the_memory_of_one_host_is_refused_between_two():
    with pytest.raises(UsageError, match=r"'MPR-shm' is for GMIs of one host, not of 2: use .*HAR"):
        on_nodes("a", "b", groups={"all": {"members": [0, 1], "reduction": "MPR-shm"}})


def test_the_part_of_a_node_is_a_layout_of_its_own():
    part, ids = on_nodes("a", "b", "c").part_on("b")
    assert ids == (1,) and part.nodes == (None,)
    assert [gmi.id for gmi in part.gmis] == [0] and part.gmis[0].num_env == 8


def test_a_layout_of_one_machine_has_the_digest_that_it_had_before_there_were_nodes():
    assert layout(gmi(0, [0])).digest == "c2f306293c77cc3d"


def test_memory_of_a_gpu_is_mapped_by_no_backend_that_keeps_it_apart():
    whole = devices(2, kinds=["gpu"]) | grouped("IPC", 0, 1)
    assert parse(Layout, whole | {"backend": "mps"}, "layout").groups["all"].reduction == "IPC"
    with pytest.raises(UsageError, match="'IPC' maps memory of other GMIs, which GMIs of backend 'mig' cannot"):
        parse(Layout, whole | {"backend": "mig"}, "layout")


def test_a_ring_is_told_where_it_is_one():
    assert "ring" not in GMI(id=0, cores=(0,)).model_dump()
    assert GMI(id=0, cores=(0,), num_env=4, ring=2).model_dump()["ring"] == 2
