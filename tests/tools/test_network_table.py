import copy
import json

import pytest

from gmi_drl.hardware.cluster import Network
from tools import network_table
from tools.network_table import measured_table, times_the_network
from tools.site.network import network_page

RESULT = json.loads(network_table.MEASURED.read_text())


@pytest.fixture(scope="module")
def page():
    """The page without its computed table, which takes seconds (tests/tools/test_site.py makes it)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tools.site.network.table", lambda: "| as computed |")
        return network_page()


def test_the_page_has_the_tables_as_they_are_computed_and_measured(page):
    assert "| as computed |" in page and measured_table(RESULT) in page


def test_a_row_has_the_speeds_of_a_number_of_nodes(monkeypatch):
    monkeypatch.setattr(network_table, "COUNTS", (1, 2))
    _, _, _, two = network_table.table().splitlines()
    speeds = [network_table.cell(2, network) for network in network_table.NETWORKS]
    assert two == f"| 2 | {' | '.join(speeds)} |" and len(set(speeds)) > 1


def test_the_page_tells_how_far_sums_are_from_the_model(page):
    times = times_the_network(RESULT)
    assert f"{min(times):.2f}x to {max(times):.2f}x" in page


def test_more_hosts_have_rows_of_their_own():
    row = copy.deepcopy(RESULT["networks"][0])
    two, four = measured_table({"networks": [row, {**row, "nodes": 4}]}).splitlines()[2:]
    assert two.startswith("| 2 | 1 Gbit/s, 0.05 ms |") and four.startswith("| 4 | 1 Gbit/s, 0.05 ms |")
    model_ms = [float(line.split("; ")[1].split(",")[0]) for line in (two, four)]
    assert model_ms[1] > 1.4 * model_ms[0], "a ring of four sends half as much again"


def test_a_network_that_slows_all_down_is_told():
    assert network_table.cell(2, Network(gbit_per_s=0.01, round_trip_ms=100)) == "one is best"
