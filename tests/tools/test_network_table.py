import copy
import json

from gmi_drl.hardware.cluster import Network
from tools import network_table
from tools.network_table import measured_table, times_the_network
from tools.site.network import network_page

PAGE = network_page()
RESULT = json.loads(network_table.MEASURED.read_text())


def test_the_page_has_the_tables_as_they_are_computed_and_measured():
    assert network_table.table() in PAGE and measured_table(RESULT) in PAGE


def test_the_page_tells_how_far_sums_are_from_the_model():
    times = times_the_network(RESULT)
    assert f"{min(times):.2f}x to {max(times):.2f}x" in PAGE


def test_more_hosts_have_rows_of_their_own():
    row = copy.deepcopy(RESULT["networks"][0])
    two, four = measured_table({"networks": [row, {**row, "nodes": 4}]}).splitlines()[2:]
    assert two.startswith("| 2 | 1 Gbit/s, 0.05 ms |") and four.startswith("| 4 | 1 Gbit/s, 0.05 ms |")
    model_ms = [float(line.split("; ")[1].split(",")[0]) for line in (two, four)]
    assert model_ms[1] > 1.4 * model_ms[0], "a ring of four sends half as much again"


def test_a_network_that_slows_all_down_is_told():
    assert network_table.cell(2, Network(gbit_per_s=0.01, round_trip_ms=100)) == "one is best"
