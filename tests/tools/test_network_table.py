from pathlib import Path

from gmi_drl.cluster import Network
from tools import network_table


def test_the_page_has_the_rows_that_are_computed(monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    monkeypatch.setattr(network_table, "COUNTS", (1, 2, 8))  # a thousand nodes take seconds
    assert all(row in page for row in network_table.table().splitlines())


def test_a_network_that_slows_all_down_is_told():
    assert network_table.cell(2, Network(gbit_per_s=0.01, round_trip_ms=100)) == "one is best"
