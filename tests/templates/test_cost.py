from dataclasses import replace

from gmi_drl.reductions import MPR_GLOO
from gmi_drl.templates.cost import NO_COMMUNICATION, Communication, throughput


def test_communication_is_that_of_table_5():
    communication = Communication(reduces=16, bucket_bytes=10**6, method=MPR_GLOO)
    assert communication.seconds(1) == 0
    assert communication.seconds(2) == 16 * 2 * (2 - 1) / 2 * 1e6 / 9e8
    assert communication.seconds(100) < 16 * 2 * 1e6 / 9e8


def test_a_bandwidth_that_is_none_of_such_devices_is_a_doubt():
    on_gpus = Communication(reduces=16, bucket_bytes=10**6, method=MPR_GLOO, on_gpu=True)
    assert on_gpus.doubt.endswith("MPR-gloo between GPUs is unmeasured, that between cores is taken, 0.9 GB/s")
    known = replace(on_gpus, method=replace(MPR_GLOO, gpu_bytes_per_second=5e9))
    nothing = replace(on_gpus, reduces=0)
    assert known.doubt is nothing.doubt is replace(on_gpus, on_gpu=False).doubt is None


def test_nothing_costs_nothing():
    assert NO_COMMUNICATION.seconds(1) == NO_COMMUNICATION.seconds(8) == 0


def test_throughput_is_equation_3():
    assert throughput(4, steps=100, iteration_s=0.75, communication_s=0.25) == 400
