from gmi_drl.templates.cost import Communication, training_throughput


def test_communication_is_that_of_table_5():
    communication = Communication(reduces=16, bucket_bytes=10**6, bytes_per_second=1e9)
    assert communication.seconds(1) == 0
    assert communication.seconds(2) == 16 * 2 * (2 - 1) / 2 * 1e6 / 1e9
    assert communication.seconds(100) < 16 * 2 * 1e6 / 1e9


def test_throughput_is_equation_3():
    assert training_throughput(4, steps=100, iteration_s=0.75, communication_s=0.25) == 400
