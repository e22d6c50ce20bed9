import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import CATALOGUE, find_gpu, gpu_named


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("A100 SXM4 40GB", "A100-SXM4-40GB"),
        ("a100_sxm4_40gb", "A100-SXM4-40GB"),
        (" NVIDIA-A100-80GB-PCIe ", "A100 80GB PCIe"),
        ("h200", "H200"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("H100 SXM", "H100 80GB HBM3"),
        ("RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090"),
        ("V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("RTX PRO 6000 Blackwell", "RTX PRO 6000 Blackwell Server Edition"),
    ],
)
def test_a_gpu_is_found_by_what_people_call_it(spelling, name):
    assert find_gpu(spelling).name == gpu_named(spelling).name == name


@given(st.sampled_from([(gpu, name) for gpu in CATALOGUE for name in gpu.names]), st.sampled_from(" -_"), st.booleans())
def test_every_name_is_that_of_one_gpu(named, between, in_full):
    gpu, name = named
    spelling = between.join(name.upper().replace("-", " ").split())
    assert find_gpu(f"NVIDIA{between}{spelling}" if in_full else spelling) is gpu


@pytest.mark.parametrize("name", ["", "NVIDIA", "A100", "H100-80GB", "X", "NVIDIA H200 MIG 1g.18gb", "Radeon VII"])
def test_other_names_are_none(name):
    assert find_gpu(name) is None
    with pytest.raises(UsageError, match=r"there is no GPU"):
        gpu_named(name)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(UsageError, match=r"no GPU 'A100-SMX4-40GB' in the catalogue; did you mean 'a100 sxm4 40gb'"):
        gpu_named("A100-SMX4-40GB")
    with pytest.raises(UsageError, match=r"it may be H100 80GB HBM3, H100 PCIe or H100 NVL$"):
        gpu_named("NVIDIA H100")


def test_mig_is_where_nvidia_lists_it():
    with_mig = {gpu.name for gpu in CATALOGUE if gpu.mig}
    assert {gpu.name for gpu in CATALOGUE if gpu.architecture in ("sm_80", "sm_90", "sm_100")} < with_mig
    assert with_mig - {gpu.name for gpu in CATALOGUE if gpu.architecture in ("sm_80", "sm_90", "sm_100")} == {
        "RTX PRO 6000 Blackwell Server Edition"
    }
    assert {gpu.architecture for gpu in CATALOGUE if not gpu.mig} == {"sm_70", "sm_86", "sm_89", "sm_120"}


@pytest.mark.parametrize("gpu", [gpu for gpu in CATALOGUE if gpu.mig], ids=lambda gpu: gpu.name)
def test_profiles_are_parts_of_their_gpu(gpu):
    whole = max(gpu.mig, key=lambda profile: profile.size)
    assert len({profile.name for profile in gpu.mig}) == len(gpu.mig)
    for profile in gpu.mig:
        assert gpu.profile(profile.name) is profile
        assert 0 < profile.size <= whole.size and max(profile.starts) + profile.size <= whole.size
        assert profile.slices <= whole.slices
        assert profile.sms is None or profile.sms <= (whole.sms or gpu.sms) <= gpu.sms
        # The name rounds up what there is: 1g.18gb has 16 GiB, 4g.24gb has 23.4.
        size_by_name = float(profile.name.partition(".")[2].partition("gb")[0])
        assert profile.memory_gib is None or 0.85 * size_by_name < profile.memory_gib < size_by_name
        assert size_by_name < 1.02 * gpu.memory_gib


def test_sms_are_those_of_the_chip_not_of_the_name():
    def sms(gpu, *names):
        return [gpu_named(gpu).profile(name).sms for name in names]

    assert sms("A100-SXM4-40GB", "1g.5gb", "1g.10gb", "3g.20gb", "7g.40gb", "1g.5gb+me") == [14, 14, 42, 98, 14]
    assert sms("H100 SXM", "1g.10gb", "1g.20gb", "3g.40gb", "4g.40gb", "7g.80gb") == [16, 26, 60, 64, 132]
    assert sms("H100 PCIe", "1g.10gb", "1g.20gb", "3g.40gb", "4g.40gb", "7g.80gb") == [14, 14, 46, 62, 114]
    assert sms("B200", "3g.90gb") == [None]


def test_what_a_gpu_has_not_is_refused():
    with pytest.raises(UsageError, match=r"A40 \(sm_86\) has no MIG"):
        gpu_named("A40").profile("1g.5gb")
    with pytest.raises(UsageError, match=r"A30 has no MIG profile '1g.5gb'; did you mean '1g.6gb'"):
        gpu_named("A30").profile("1g.5gb")


def test_memory_is_told_in_gib():
    assert find_gpu("A100-SXM4-40GB").memory_gib == 40.0 and 79.6 < find_gpu("H100 PCIe").memory_gib < 79.7
