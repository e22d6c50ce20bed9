import os

import pytest
from conftest import children_of

from gmi_drl.benchmarks.cases.sharing import uneven
from gmi_drl.benchmarks.runner import run_case

four_cores = pytest.mark.skipif(uneven.CASE.obstacle() is not None, reason=str(uneven.CASE.obstacle()))


@four_cores
def test_all_sides_have_the_same_devices_and_as_many_environments():
    layouts = uneven.layouts()
    assert {layout.num_env for layout in layouts.values()} == {1024}
    devices = [
        [sorted(core for gmi in device.gmis for core in gmi.cores) for device in layout.devices]
        for layout in layouts.values()
    ]
    assert devices == [devices[0]] * len(layouts) and [len(cores) for cores in devices[0]] == [1, 3]
    assert [len(device.gmis) for device in layouts[uneven.OURS].devices] == [1, 3]
    threads = [layouts[name].gmis[1].torch_threads for name in (uneven.EVEN, uneven.EVEN_THREADS)]
    assert threads == [1, 3]


@four_cores
def test_each_gmi_has_the_environments_of_its_layout(monkeypatch):
    monkeypatch.setattr(uneven, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(uneven, "layouts", lambda: {uneven.OURS: uneven.layout_of([2], [3] * 3)})
    result = run_case(uneven.CASE, repeats=1, quick=True)
    details = result.samples[uneven.OURS][0].details
    assert (details["gmis"], details["num_env"]) == (4, 3) and not children_of(os.getpid())
