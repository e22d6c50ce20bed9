from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.layout.mapping import even_mapping
from tools import reductions_page
from tools.reductions_page import byte_table, judged, modelled_ms, speed_table


def test_a_choice_is_held_against_what_was_measured():
    times = {"MPR-shm": [1.1, 2.0, 3.0, 4.0], "MPR-gloo": [1.0, 4.0, 5.0, 6.0]}
    said = judged(times, [[0], [1]], OF_CORES)
    assert said.startswith("The model chooses MPR-shm for these lengths, at most 10% slower than the fastest;")
    assert said.endswith("by the layout alone, Algorithm 1, it is MRR.")
    fastest = judged(times | {"MPR-gloo": [9.0] * 4}, [[0], [1]], OF_CORES)
    assert "for these lengths, which was the fastest;" in fastest


def test_what_the_model_does_not_know_is_left_out():
    assert modelled_ms("MPR-shm", [[0], [1]], 1000, OF_CORES) > 0
    assert modelled_ms("MRR", even_mapping(2, 3), 1000, OF_CORES) is None


def test_bytes_between_devices_are_those_that_the_transport_counts():
    """For 2x2 see `EXPECTED` of tests/comm/reductions/test_routes.py: two rings, the delegates', two broadcasts."""
    assert "| 2G2T | 8 M | 2 M | 2 M |" in byte_table() and "| 2G3T | not legal | 2 M | 2 M |" in byte_table()


def test_speeds_are_shown_with_both_numbers():
    assert "| memory | 2.0 us | 17.00 GB/s |" in speed_table(OF_CORES)


def test_the_page_says_by_what_it_was_made():
    assert "python -m tools.reductions_page" in reductions_page.HEAD
