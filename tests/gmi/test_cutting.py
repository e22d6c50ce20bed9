import os

import pytest
from conftest import tiny_layout
from toys import install_backend

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import ProcessBackend, backend_for, claimed, cut
from gmi_drl.layout import GMI, Device, Layout

ELSEWHERE = Layout(devices=(Device(kind="cpu", gmis=(GMI(id=0, num_env=1, cores=(999,)),)),))


def test_the_backend_is_the_one_that_the_layout_names(install):
    toy = install_backend(install)
    assert type(backend_for(tiny_layout(1))) is ProcessBackend
    assert type(backend_for(tiny_layout(1, backend="toy"))) is toy


@pytest.mark.parametrize("way", [cut, lambda layout: claimed([tiny_layout(1), layout], "a test")])
def test_a_layout_for_other_hardware_is_refused_with_the_numbers(way):
    with (
        pytest.raises(LayoutMismatchError, match=r"uses cores 999, this process may use 0..\d+.*gmi-drl plan"),
        way(ELSEWHERE),
    ):
        pass


def test_devices_are_claimed_once_for_all_layouts_that_are_cut_on_them():
    one = tiny_layout(1)
    with claimed([one, one], "a test"):
        with cut(one) as first, cut(one) as second:
            assert first is not second and first.environment(0) == second.environment(0)
        with pytest.raises(LayoutMismatchError, match=f"in use by process {os.getpid()} .a test."), claimed([one], "b"):
            pass
    with claimed([one], "b"):
        pass


def test_a_cut_is_undone_however_its_block_ends(install):
    toy = install_backend(install)
    with pytest.raises(KeyboardInterrupt), cut(tiny_layout(1, backend="toy")):
        assert toy.alive == 1
        raise KeyboardInterrupt
    assert toy.alive == 0
