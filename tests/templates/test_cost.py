from gmi_drl.reductions import MPR_GLOO
from gmi_drl.templates.cost import NO_COMMUNICATION, Communication, throughput


def test_communication_is_that_of_table_5():
    communication = Communication(reduces=16, bucket_bytes=10**6, method=MPR_GLOO)
    assert communication.seconds(1) == 0
    assert communication.seconds(2) == 16 * 2 * (2 - 1) / 2 * 1e6 / 9e8
    assert communication.seconds(100) < 16 * 2 * 1e6 / 9e8


def test_nothing_costs_nothing():
    assert NO_COMMUNICATION.seconds(1) == NO_COMMUNICATION.seconds(8) == 0


def test_throughput_is_equation_3():
    assert throughput(4, steps=100, iteration_s=0.75, communication_s=0.25) == 400
