import random
import sys
from pathlib import Path

import pytest
from conftest import two_cores

sys.path.append(str(Path(__file__).parents[1] / "launch" / "nodes"))
from networks import needs_hosts


@two_cores
@needs_hosts
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["head killed", "proxy killed"])
def test_a_fault_ends_as_promised_and_the_run_goes_on(fault, tmp_path, monkeypatch):
    import soak_nodes

    kinds = (soak_nodes.FAULTS, soak_nodes.DECOUPLED_FAULTS, soak_nodes.RAY_FAULTS)
    of = next(one for one in kinds if fault in one)
    if of is soak_nodes.RAY_FAULTS:
        pytest.importorskip("ray", reason="needs the extra [ray]")
    # A machine that others use is slow: this test is of what is said, not of how soon.
    monkeypatch.setattr(soak_nodes, "NAMED_S", 120.0)
    monkeypatch.setattr(soak_nodes, "STOPPED_S", 150.0)
    monkeypatch.setattr(soak_nodes, "LAST_ROW_S", 60.0)
    assert soak_nodes.one(fault, tmp_path, random.Random(1), of) == []
