import pytest

from gmi_drl.layout.backend_limits import mig_ci_gives, mig_ci_refuses, mig_gives, mig_refuses, mps_refuses

GIB = 2**30


@pytest.mark.parametrize(
    ("model", "gmis", "memory_gib", "why"),
    [
        ("A100-SXM4-40GB", 7, 4, None),
        ("NVIDIA A30", 4, 5, None),
        ("A30", 7, 1, "A30 has at most 4 MIG instances, not 7"),
        ("GeForce RTX 4090", 2, 1, "GeForce RTX 4090 (sm_89) has no MIG"),
        ("A100-SXM4-40GB", 7, 6, "6.0 GiB are more than the 4.8 GiB of a 1g.5gb"),
        ("a GPU of next year", 7, 6, None),
    ],
)
def test_mig_has_equal_instances_with_the_memory_of_a_gmi(model, gmis, memory_gib, why):
    assert mig_refuses(model, gmis, memory_gib * GIB) == why


def test_compute_instances_have_one_memory_in_common():
    assert mig_ci_refuses("A100-SXM4-40GB", 7, 5 * GIB) is None
    assert "more than the" in mig_ci_refuses("A100-SXM4-40GB", 7, 6 * GIB)  # 42 GiB of one 7g.40gb
    assert "at most 7 compute instances, not 8" in mig_ci_refuses("A100-SXM4-40GB", 8, GIB)
    assert "has no MIG" in mig_ci_refuses("Tesla V100-SXM2-16GB", 2, GIB) and mig_ci_refuses("x", 9, GIB) is None


def test_mps_has_so_many_clients():
    assert mps_refuses("A30", 48, GIB) is None and "at most 48 clients" in mps_refuses("A30", 49, GIB)


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("NVIDIA H200 MIG 7g.141gb", 48),
        ("NVIDIA H200 MIG 3g.71gb", 20),
        ("NVIDIA H200 MIG 1c.3g.71gb", 6),
        ("NVIDIA A30 MIG 1g.6gb", 12),
        ("a GPU of next year MIG 2g.99gb", 13),
    ],
)
def test_mps_has_fewer_clients_on_a_mig_device(model, most):
    assert mps_refuses(model, most, GIB) is None
    assert f"at most {most} clients of {model}, not {most + 1}" in mps_refuses(model, most + 1, GIB)


def test_gpu_instances_are_the_largest_of_which_so_many_fit():
    assert mig_gives("NVIDIA A100-SXM4-40GB", 2) == "2 x 3g.20gb, 42 SMs and 19.5 GiB each"
    assert mig_gives("B200", 2) == "2 x 3g.90gb each", "neither SMs nor memory are known"


def test_compute_instances_have_the_memory_of_the_whole_in_common():
    assert mig_ci_gives("NVIDIA A100-SXM4-40GB", 2) == "2 x 3c.7g.40gb, 39.2 GiB in common"
    assert mig_ci_gives("A30", 4) == "4 x 1c.4g.24gb, 23.4 GiB in common"


def test_of_what_is_unknown_or_cannot_be_nothing_is_said():
    for gives in (mig_gives, mig_ci_gives):
        assert gives("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1) == gives("L4", 1) == gives("H200", 8) == ""
