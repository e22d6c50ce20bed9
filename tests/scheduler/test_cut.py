from gmi_drl.hardware import Cpu, CpuDevices, Node
from gmi_drl.scheduler import even_layout
from gmi_drl.scheduler.cut import TRAINERS
from gmi_drl.workload import TASK_SPECS


def test_every_device_is_cut_alike():
    node = Node(name="n", cpus=CpuDevices(cores_each=4, count=2), cpu=Cpu(cores=8, memory_gib=8))
    layout = even_layout(TASK_SPECS["ant"], node, 2, 64, why=["because"])
    assert [[gmi.cores for gmi in device.gmis] for device in layout.devices] == [[(0, 1), (2, 3)], [(4, 5), (6, 7)]]
    assert layout.groups[TRAINERS].members == (0, 1, 2, 3) and layout.reasons[:2] == (
        "because",
        "4 GMIs on the 2 CPU devices of n, 64 environments each",
    )


def test_one_gmi_is_spoken_of_as_one():
    layout = even_layout(TASK_SPECS["ant"], Node(name="n", cpu=Cpu(cores=2, memory_gib=8)), 1, 64)
    assert layout.reasons[0] == "1 GMI on the CPU of n, 64 environments"
