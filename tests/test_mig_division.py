import pytest

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.mig_division import Division, mig_ci_division, mig_division


def test_gpu_instances_are_the_largest_of_which_so_many_fit():
    assert mig_division("NVIDIA A100-SXM4-40GB", 2) == Division("2 x 3g.20gb, 42 SMs and 19.5 GiB each", 19.5)
    assert mig_division("B200", 2) == Division("2 x 3g.90gb each", None), "neither SMs nor memory are known"
    assert mig_division("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 2) is None, "is not in the catalogue"


def test_compute_instances_have_the_memory_of_the_whole_in_common():
    assert mig_ci_division("NVIDIA A100-SXM4-40GB", 2) == Division("2 x 3c.7g.40gb, 39.2 GiB in common", 39.25 / 2)
    assert mig_ci_division("A30", 4).how == "4 x 1c.4g.24gb, 23.4 GiB in common"


@pytest.mark.parametrize("divide", [mig_division, mig_ci_division])
def test_what_cannot_be_cut_so_is_told_with_what_can(divide):
    with pytest.raises(NoFeasiblePlanError, match=r"8 GMIs on a H200 are more than MIG cuts it into, 7: ask for fewer"):
        divide("H200", 8)
    with pytest.raises(NoFeasiblePlanError, match=r"L4 \(sm_89\) has no MIG: plan with another --backend"):
        divide("L4", 1)
