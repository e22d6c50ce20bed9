import copy
import json

import pytest

from gmi_drl.hardware.cluster import Network
from tools import network_table
from tools.network_table import measured_table, times_the_network, with_tables

PAGE = network_table.PAGE.read_text()
RESULT = json.loads(network_table.MEASURED.read_text())


def test_the_page_has_the_tables_as_they_are_computed_and_measured():
    assert with_tables(PAGE, [network_table.table(), measured_table(RESULT)]) == PAGE


@pytest.mark.parametrize("text", ["1 Gbit/s a sum takes {} the network's", "faster ones {}:"])
def test_the_page_tells_how_far_sums_are_from_the_model(text):
    is_slow = text.startswith("1 Gbit/s")
    rows = [row for row in RESULT["networks"] if (row["gbit_per_s"] == 1) == is_slow]
    times = times_the_network({"networks": rows})
    assert text.format(f"{min(times):.2f}x to {max(times):.2f}x") in PAGE


def test_more_hosts_have_rows_of_their_own():
    row = copy.deepcopy(RESULT["networks"][0])
    two, four = measured_table({"networks": [row, {**row, "nodes": 4}]}).splitlines()[2:]
    assert two.startswith("| 2 | 1 Gbit/s, 0.05 ms |") and four.startswith("| 4 | 1 Gbit/s, 0.05 ms |")
    model_ms = [float(line.split("; ")[1].split(",")[0]) for line in (two, four)]
    assert model_ms[1] > 1.4 * model_ms[0], "a ring of four sends half as much again"


def test_a_page_without_the_table_is_refused():
    with pytest.raises(SystemExit, match="has 0 tables that begin with"):
        with_tables("no table", [measured_table(RESULT)])


def test_a_network_that_slows_all_down_is_told():
    assert network_table.cell(2, Network(gbit_per_s=0.01, round_trip_ms=100)) == "one is best"
