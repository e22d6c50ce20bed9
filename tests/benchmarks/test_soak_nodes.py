import sys
from pathlib import Path

import pytest
from conftest import two_cores

sys.path.append(str(Path(__file__).parents[1] / "launch" / "nodes"))
from networks import needs_hosts


@two_cores
@needs_hosts
@pytest.mark.timeout(300)
def test_a_fault_ends_as_promised_and_the_run_goes_on():
    import soak_nodes

    assert soak_nodes.soaked(1, seed=1) == []
