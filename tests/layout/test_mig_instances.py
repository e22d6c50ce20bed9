import pytest

from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import GMI
from gmi_drl.layout.mig_instances import CutGpu, compute_names


@pytest.mark.parametrize("profile", ["xc.7g.40gb", "c.7g.40gb", "1.5c.7g.40gb"])
def test_a_compute_instance_without_a_number_of_slices_is_told_as_such(profile):
    gpu = CutGpu(0, "A100-SXM4-40GB", (GMI(id=0, num_env=1, cores=(0,), mig_profile=profile),))
    with pytest.raises(UsageError, match=r"is no MIG profile: a compute instance is named like 1c\.7g\.40gb"):
        compute_names(gpu)
