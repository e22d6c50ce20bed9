import pytest

from gmi_drl.files import dump_yaml, parse
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.signature import MachineSignature, differences, signature_of
from gmi_drl.layout.layout import Layout
from gmi_drl.scheduler import plan
from gmi_drl.workload import TASK_SPECS
from gmi_drl.yaml_text import read_yaml

DGX = Node(
    name="dgx",
    gpus=(Gpus(model="A100-SXM4-40GB", count=6), Gpus(model="A30", count=2)),
    cpu=Cpu(cores=64, memory_gib=9),
)


def test_a_layout_remembers_its_node():
    layout = plan(TASK_SPECS["ant"], DGX, num_env=64)
    assert layout.made_for == MachineSignature(name="dgx", gpus={"A100-SXM4-40GB": 6, "A30": 2}, cores=64)
    assert parse(Layout, read_yaml(dump_yaml(layout)), "file") == layout
    assert layout.digest == layout.model_copy(update={"made_for": None}).digest  # where it was planned decides nothing


@pytest.mark.parametrize(
    ("here", "told"),
    [
        ({}, None),
        ({"name": "another"}, None),
        ({"gpus": (Gpus(model="nvidia a100 sxm4 40gb", count=6), Gpus(model="NVIDIA A30", count=2))}, None),
        (
            {"gpus": (Gpus(model="A30", count=2), Gpus(model="A100-SXM4-40GB", count=6))},  # cut as the others were
            "was made for dgx with 6 x A100-SXM4-40GB and 2 x A30, here 2 x A30 and 6 x A100-SXM4-40GB",
        ),
        ({"gpus": Gpus(model="A30", count=8)}, "was made for dgx with 6 x A100-SXM4-40GB and 2 x A30, here 8 x A30"),
        ({"cpu": Cpu(cores=32, memory_gib=9)}, "was made for dgx with 64 cores, here 32"),
        (
            {"gpus": None, "cpu": Cpu(cores=2, memory_gib=9)},
            "was made for dgx with 6 x A100-SXM4-40GB and 2 x A30, here no GPU; 64 cores, here 2",
        ),
    ],
)
def test_what_differs_on_another_machine_is_told_in_a_line(here, told):
    assert differences(signature_of(DGX), signature_of(DGX.model_copy(update=here))) == told
