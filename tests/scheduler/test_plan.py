from gmi_drl.files import dump_yaml, parse
from gmi_drl.hardware import Cpu, Node
from gmi_drl.layout import Layout
from gmi_drl.scheduler import plan
from gmi_drl.workload import TASK_SPECS

NODE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))


def test_a_plan_without_a_profile_says_that_nothing_was_measured():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64)
    assert layout.reduction == "MPR-shm" and layout.groups == {"trainers": (0, 1)} and layout.num_env == 128
    assert (
        layout.projection is not None and not layout.projection.measured and layout.projection.steps_per_second is None
    )
    assert "nothing was measured" in layout.reasons[0]
    assert "nothing was measured" in dump_yaml(layout)


def test_other_processors_reduce_by_gloo():
    arm = Node(name="n", cpu=Cpu(cores=2, memory_gib=8, architecture="aarch64"))
    assert plan(TASK_SPECS["ant"], arm, num_env=64).reduction == "MPR-gloo"


def test_one_gmi_reduces_with_nobody():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64, gmis_per_device=1)
    assert layout.reduction == "none" and [gmi.cores for gmi in layout.gmis] == [(0, 1)]
    assert parse(Layout, layout.model_dump(), "again") == layout
