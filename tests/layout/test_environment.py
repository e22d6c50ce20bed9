import pytest

from gmi_drl.layout.environment import gmi_environment, mps_limits, thread_percentage
from gmi_drl.layout.layout import GMI


def environment(cores=(0,), threads=None, share_cores=False, gpu="", **inherited):
    return gmi_environment(GMI(id=0, num_env=1, cores=cores, threads=threads), cores, gpu, share_cores, inherited)


def test_threads_cores_and_gpu_are_named():
    one = environment((4, 7), gpu="GPU-a")
    assert one["OMP_NUM_THREADS"] == one["MKL_NUM_THREADS"] == one["OPENBLAS_NUM_THREADS"] == "2"
    assert one["GMI_DRL_CPUS"] == "4,7" and one["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert environment((4, 7), threads=1)["OMP_NUM_THREADS"] == "1"


def test_several_threads_spin_a_little_and_not_where_gmis_take_turns():
    assert "GOMP_SPINCOUNT" not in environment()
    assert environment((0, 1), share_cores=True)["GOMP_SPINCOUNT"] == "0" != environment((0, 1))["GOMP_SPINCOUNT"]
    assert environment((0,), threads=2)["GOMP_SPINCOUNT"] == environment((0, 1), threads=1)["GOMP_SPINCOUNT"] == "20000"


def test_users_variables_override_ours():
    own = {"GOMP_SPINCOUNT": "5", "MALLOC_TRIM_THRESHOLD_": "7", "OMP_NUM_THREADS": "64"}
    assert environment((0, 1), **own) == environment((0, 1)) | {**own, "OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    ("share", "percent"),
    [(n / 100, n) for n in range(1, 101)] + [(1 / k, 100 // k) for k in range(1, 49)] + [(0.004, 1), (0.2999, 29)],
)
def test_a_whole_percent_stays_whole_and_parts_are_cut_off(share, percent):
    assert thread_percentage(share) == percent


def test_limits_of_mps_are_percents_and_mebibytes_of_its_only_gpu():
    assert mps_limits(None, None) == {}
    assert mps_limits(0.29, None) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "29"}
    assert mps_limits(0.5, 4 * 2**30 + 5)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4096M"
