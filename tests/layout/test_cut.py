from dataclasses import FrozenInstanceError

import pytest

from gmi_drl.layout.cut import Cut


def test_a_cut_is_a_key():
    assert {Cut(2, 512): "a"}[Cut(2, 512)] == "a" and Cut(2, 512) != Cut(512, 2)
    with pytest.raises(FrozenInstanceError):
        Cut(2, 512).num_env = 1


def test_cuts_are_told_and_sorted_by_gmis_and_then_environments():
    assert [str(cut) for cut in sorted([Cut(2, 8), Cut(1, 64), Cut(2, 4)])] == ["1 x 64", "2 x 4", "2 x 8"]


def test_an_uncut_device_has_as_many_environments():
    assert Cut(4, 256).uncut == Cut(1, 1024) and Cut(1, 64).uncut == Cut(1, 64)


def test_caps_are_part_of_the_key_and_told():
    capped = Cut(4, 256, "mps", capped=True)
    assert capped != Cut(4, 256, "mps") and capped.division != Cut(4, 256, "mps").division
    assert str(capped) == "4 x 256 by capped mps" and capped.described == "4 x 256 environments by capped mps"
    assert capped.uncut == Cut(1, 1024, "mps") and capped.with_num_env(8).capped


def test_what_cuts_is_part_of_the_key():
    cut = Cut(4, 256, "other")
    assert Cut(4, 256) == Cut(4, 256, "process") != cut and cut.uncut == Cut(1, 1024, "other")
    assert cut.with_num_env(8) == Cut(4, 8, "other") and cut.division == Cut(4, 8, "other").division
    assert cut.division not in (Cut(4, 256).division, Cut(2, 256, "other").division)
