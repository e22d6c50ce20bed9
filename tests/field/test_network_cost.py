import sys
from pathlib import Path

import pytest
import scripts  # noqa: F401  puts the scripts on the path
from conftest import two_cores

sys.path.append(str(Path(__file__).parents[1] / "launch" / "nodes"))
from networks import needs_hosts


@two_cores
@needs_hosts
@pytest.mark.timeout(200)
def test_a_slow_network_is_as_slow_as_it_is_called_and_sums_go_over_it():
    import network_cost

    network = network_cost.Network(gbit_per_s=0.5, round_trip_ms=20)
    row = network_cost.measured("abc", network, 0.2, ("ant",), bulk_bytes=2**22)
    (ant,) = row["sums"].values()
    # Never faster than the network; how much slower is a matter of what else runs.
    assert row["bare"]["round_trip_ms"] >= 20 and row["bare"]["gbit_per_s"] <= 0.5
    alone = 5 * 10 + 4 / 3 * 8e-6 * ant["bytes"] / 0.5  # five ways, and the bytes of a ring
    assert ant["measured_ms"] >= alone
    assert ant["model_ms"] == pytest.approx(alone, abs=1)
    assert "3 nodes, 0.5 Gbit/s, 20 ms; bare" in network_cost.described(row)
