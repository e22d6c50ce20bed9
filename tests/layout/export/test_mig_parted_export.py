import pytest
import yaml
from layouts import A100, H100, backends, cut, even, exported, profiles  # noqa: F401
from tool_schemas import mig_parted_spec

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.layout.export.mig_parted import PCI_IDS

pytestmark = pytest.mark.usefixtures("backends")


def entries(layout, *models):
    return mig_parted_spec(yaml.safe_load(exported("mig-parted", layout, *models)))["gmi-drl"]


def test_gpus_that_are_cut_alike_share_an_entry():
    layout = cut("mig", even(7), even(7), profiles("3g.20gb", "2g.10gb", "2g.10gb"))
    assert entries(layout, A100, A100, A100) == [
        {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
        {"devices": [2], "mig-enabled": True, "mig-devices": {"3g.20gb": 1, "2g.10gb": 2}},
    ]


def test_where_models_differ_an_entry_names_its_own():
    (a100, h100) = entries(cut("mig", even(2), even(2)), A100, H100)
    assert a100 == {
        "device-filter": "0x20B010DE",
        "devices": [0],
        "mig-enabled": True,
        "mig-devices": {"3g.20gb": 2},
    }
    assert h100["device-filter"] == "0x233010DE" and h100["mig-devices"] == {"3g.40gb": 2}
    assert "device-filter" not in entries(cut("mig", even(2)), A100)[0]


def test_compute_instances_are_those_of_the_whole_gpu_or_as_named():
    assert entries(cut("mig-ci", even(2)), A100)[0]["mig-devices"] == {"3c.7g.40gb": 2}
    assert entries(cut("mig-ci", even(1)), A100)[0]["mig-devices"] == {"7g.40gb": 1}
    assert entries(cut("mig-ci", profiles("2c.3g.20gb", "1c.3g.20gb")), A100)[0]["mig-devices"] == {
        "2c.3g.20gb": 1,
        "1c.3g.20gb": 1,
    }


@pytest.mark.parametrize(
    ("backend", "gmis", "model", "words"),
    [
        ("mig", even(8), A100, "GPU 0 has 8 GMIs, and A100-SXM4-40GB has no room"),
        ("mig", even(2), "RTX 4090", "has no MIG"),
        ("mig", profiles("4g.20gb", "4g.20gb"), A100, "2 x 4g.20gb do not fit on one A100-SXM4-40GB"),
        ("mig", profiles("3g.40gb"), A100, "no MIG profile '3g.40gb'"),
        ("mig", [*profiles("3g.20gb"), {}], A100, r"GMIs \[1\] of GPU 0 name no mig_profile"),
        ("mig", even(2), "Hopper 9000", "there is no GPU 'Hopper 9000' in the catalogue"),
        ("mig-ci", even(8), A100, "7g.40gb has room for 7 compute instances, GPU 0 has 8 GMIs"),
        ("mig-ci", profiles("1c.3g.20gb", "1c.2g.10gb"), A100, "one GPU instance of each GPU, not 2g.10gb and 3g.20gb"),
        ("mig-ci", profiles("2c.3g.20gb", "2c.3g.20gb"), A100, "do not fit into one 3g.20gb of 3 compute slices"),
        ("mig-ci", even(2), "L4", "has no MIG"),
    ],
)
def test_what_a_gpu_cannot_be_cut_into_is_refused(backend, gmis, model, words):
    with pytest.raises(UsageError, match=words):
        exported("mig-parted", cut(backend, gmis), model)


def test_ids_are_of_gpus_that_have_mig():
    assert all(find_gpu(name).name == name and find_gpu(name).mig for name in PCI_IDS)
    assert len(set(PCI_IDS.values())) == len(PCI_IDS)
