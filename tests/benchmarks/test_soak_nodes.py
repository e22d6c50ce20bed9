import sys
from pathlib import Path

import pytest
from conftest import two_cores

sys.path.append(str(Path(__file__).parents[1] / "launch" / "nodes"))
from networks import needs_hosts


@two_cores
@needs_hosts
@pytest.mark.timeout(300)
def test_one_fault_of_each_kind_ends_as_promised():
    import soak_nodes

    assert soak_nodes.soaked(len(soak_nodes.FAULTS), seed=1) == []
