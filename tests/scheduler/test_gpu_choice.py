import pytest

from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Cpu, Gpus, Links, Node
from gmi_drl.scheduler import plan
from gmi_drl.scheduler.gpu_choice import with_gpus
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
ALIKE = Node(name="dgx", gpus=Gpus(model="A30", count=8), link="nvswitch", cpu=Cpu(cores=64, memory_gib=512))
ISLANDS = ALIKE.model_copy(
    update={"link": "pcie", "links": (Links(gpus=(0, 2, 4), kind="nvlink"), Links(gpus=(3, 5, 6, 7), kind="nvlink"))}
)


def planned(node, **more):
    layout = plan(ANT, node, num_env=64, gmis_per_gpu=2, **more)
    return [device.index for device in layout.devices], layout


@pytest.mark.parametrize(
    ("count", "gpus", "told"),
    [
        (1, [0], "uses GPU 0 of 8"),
        (3, [0, 2, 4], "uses GPUs 0,2,4 of 8: NVLink links every two of them, which reduce together"),
        (4, [3, 5, 6, 7], "uses GPUs 3,5-7 of 8: NVLink links every two of them, which reduce together"),
        (
            5,
            [0, 3, 5, 6, 7],
            "uses GPUs 0,3,5-7 of 8: no island has so many: only PCIe is between GPUs 3,5-7 (NVLink) and the others",
        ),
    ],
)
def test_gmis_that_reduce_together_go_to_the_best_linked_gpus(count, gpus, told):
    used, layout = planned(with_gpus(ISLANDS, count))
    assert used == gpus and layout.reasons[-1] == told
    assert len(layout.gmis) == 2 * count and len({core for gmi in layout.gmis for core in gmi.cores}) == 64


def test_all_gpus_of_two_islands_reduce_by_the_slower_link():
    used, layout = planned(ISLANDS)
    assert (
        used == list(range(8))
        and "only PCIe is between GPUs 0,2,4 (NVLink) and GPUs 3,5-7 (NVLink) and the others" in layout.reasons[-1]
    )


def test_where_all_are_linked_alike_nothing_is_told_unless_some_are_left_out():
    _, layout = planned(ALIKE)
    assert not any("GPUs 0" in reason for reason in layout.reasons)
    _, layout = planned(with_gpus(ALIKE, 2))
    assert layout.reasons[-1] == "uses GPUs 0-1 of 8: all GPUs are linked alike, by NVSwitch"


def test_those_that_serve_reduce_nothing():
    _, layout = planned(with_gpus(ISLANDS, 4), template=TCG)
    assert layout.reasons[-1] == "uses GPUs 3,5-7 of 8"


def test_more_than_there_are_is_refused():
    with pytest.raises(UsageError, match="9 GPUs are asked for, dgx has 8"):
        with_gpus(ALIKE, 9)
