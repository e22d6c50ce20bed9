from gmi_drl.layout.mig_division import mig_ci_gives, mig_gives


def test_gpu_instances_are_the_largest_of_which_so_many_fit():
    assert mig_gives("NVIDIA A100-SXM4-40GB", 2) == "2 x 3g.20gb, 42 SMs and 19.5 GiB each"
    assert mig_gives("B200", 2) == "2 x 3g.90gb each", "neither SMs nor memory are known"


def test_compute_instances_have_the_memory_of_the_whole_in_common():
    assert mig_ci_gives("NVIDIA A100-SXM4-40GB", 2) == "2 x 3c.7g.40gb, 39.2 GiB in common"
    assert mig_ci_gives("A30", 4) == "4 x 1c.4g.24gb, 23.4 GiB in common"


def test_of_what_is_unknown_or_cannot_be_nothing_is_said():
    for gives in (mig_gives, mig_ci_gives):
        assert gives("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1) == gives("L4", 1) == gives("H200", 8) == ""
