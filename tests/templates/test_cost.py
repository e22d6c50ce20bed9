from dataclasses import replace

import pytest

from gmi_drl.hardware.speeds import GLOO, GPU_MEMORY, LINK, MEMORY, OF_CORES, Speed
from gmi_drl.layout.mapping import even_mapping
from gmi_drl.layout.reductions import HAR, IPC, MPR_GLOO, MPR_SHM, NONE
from gmi_drl.templates.cost import NO_COMMUNICATION, Communication

ON_CORES = Communication(reduces=16, bucket_bytes=10**6, architecture="x86_64")


def speed(bytes_per_second, round_s=0.0):
    return Speed(round_s=round_s, bytes_per_second=float(bytes_per_second))


def test_bytes_cost_what_table_5_says():
    communication = replace(ON_CORES, speeds={GLOO: speed(9e8)})
    assert communication.seconds([[0]]) == 0
    assert communication.seconds([[0], [1]]) == pytest.approx(16 * 2 * (2 - 1) / 2 * 1e6 / 9e8)
    assert communication.seconds(even_mapping(10, 10)) < 16 * 2 * 1e6 / 9e8


def test_the_fastest_that_is_legal_and_known_is_taken():
    slow_memory = {MEMORY: speed(1e6), GLOO: speed(1e8)}
    pair, single = [[0], [1]], [[0, 1]]
    assert ON_CORES.method(pair) is MPR_SHM and ON_CORES.method([[0]]) is NONE
    assert replace(ON_CORES, speeds=slow_memory).method(single) is MPR_GLOO
    assert replace(ON_CORES, speeds={MEMORY: speed(1e6), GLOO: speed(1e5)}).method(single) is MPR_SHM
    elsewhere = replace(ON_CORES, architecture="riscv64")
    assert elsewhere.method(pair) is MPR_GLOO
    assert replace(elsewhere, speeds={MEMORY: speed(1e9)}).method(pair) is MPR_GLOO, "of which no speed is known"


def test_links_are_taken_where_they_are_faster_than_the_memory():
    links = {MEMORY: speed(1e9, round_s=1e-6), LINK: speed(50e9), GLOO: speed(1e8)}
    across = replace(ON_CORES, speeds=links)
    assert across.method([[0], [1]]).name == "MRR"
    assert across.method([[0, 1], [2, 3, 4]]) is not HAR


def test_a_choice_says_what_else_there_is_and_what_the_paper_takes():
    said = ON_CORES.why(even_mapping(2, 2))
    assert said.startswith("by usual speeds, 0.092 ms for each sum of 976.6 KiB, ")
    assert said.endswith("by the layout alone (the paper's Algorithm 1) MRR")
    assert replace(ON_CORES, speeds=OF_CORES).why([[0, 1]]).startswith("by measured speeds, ")


def test_speeds_that_are_none_of_such_devices_are_a_doubt():
    on_gpus = replace(ON_CORES, kind="gpu")
    assert on_gpus.doubt.endswith("no speed between GMIs of GPUs is known, those between cores are taken")
    nothing = replace(on_gpus, reduces=0)
    assert replace(on_gpus, speeds=OF_CORES).doubt is nothing.doubt is ON_CORES.doubt is None


def test_gmis_of_one_device_are_measured_by_the_reduction_of_all_if_it_is_for_them():
    on_gpus = replace(ON_CORES, kind="gpu", speeds={GPU_MEMORY: speed(9e12), MEMORY: speed(1e9), LINK: speed(9e10)})
    across, one = even_mapping(2, 2), [[0, 1]]
    assert on_gpus.method(one) is IPC and on_gpus.method(across).rendezvous_by == "links"
    assert on_gpus.method_of_part(one, across) is IPC, "MRR is for several devices"
    slow_links = replace(on_gpus, speeds={GPU_MEMORY: speed(9e12), MEMORY: speed(1e9), LINK: speed(1e3)})
    assert slow_links.method_of_part(one, across) is MPR_SHM, "which GMIs of two GPUs take"
    assert slow_links.method_of_part([[0]], [[0], [1]]) is NONE


def test_nothing_costs_nothing():
    assert NO_COMMUNICATION.seconds([[0]]) == NO_COMMUNICATION.seconds(even_mapping(2, 4)) == 0
