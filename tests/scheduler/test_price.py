import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.scheduler.price import Prices, cost_per_billion_steps, price_per_hour, prices_of

MIXED = Node(
    name="mixed",
    gpus=(Gpus(model="NVIDIA A100-SXM4-40GB", count=4), Gpus(model="NVIDIA H100 80GB HBM3", count=2)),
    cpu=Cpu(cores=64, memory_gib=512),
)


def test_a_billion_steps_take_as_long_as_the_speed_says():
    """500k steps/s do a billion in 2000 s: 0.5556 hours at 9 an hour."""
    assert cost_per_billion_steps(9.0, 500_000) == pytest.approx(5.0)
    assert cost_per_billion_steps(9.0, 0.0) == math.inf


@given(st.floats(0.01, 1e4), st.floats(1, 1e9))
def test_half_the_speed_or_twice_the_price_cost_twice_as_much(price, speed):
    cost = cost_per_billion_steps(price, speed)
    assert cost_per_billion_steps(price, speed / 2) == pytest.approx(2 * cost)
    assert cost_per_billion_steps(2 * price, speed) == pytest.approx(2 * cost)


@pytest.mark.parametrize(
    ("texts", "hourly"),
    [
        (["2"], 6 * 2.0),
        (["H100=3", "a100=1"], 4 * 1.0 + 2 * 3.0),
        (["1", "H100=3"], 4 * 1.0 + 2 * 3.0),
        (["A100=1", "A100-SXM4-40GB=1.5", "h100 sxm=3"], 4 * 1.5 + 2 * 3.0),  # the longest name counts
    ],
)
def test_each_model_may_have_its_price(texts, hourly):
    assert price_per_hour(MIXED, prices_of(texts)) == pytest.approx(hourly)


def test_no_price_is_none():
    assert prices_of([]) is None and prices_of(["0"]) == Prices(0.0)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["cheap"], "a price is a number of 0 or more"),
        (["H100=-1"], "a price is a number of 0 or more"),
        (["inf"], "a price is a number of 0 or more"),
        (["=2"], "name the model before the ="),
        (["1", "2"], "have a price already"),
        (["H100=1", "H100=2"], "H100 have a price already"),
    ],
)
def test_what_is_no_price_is_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        prices_of(texts)


def test_a_gpu_without_a_price_is_named_and_cores_have_none():
    with pytest.raises(UsageError, match="no price of NVIDIA H100 80GB HBM3 is given: add"):
        price_per_hour(MIXED, prices_of(["A100=1", "H10=2"]))
    with pytest.raises(UsageError, match="n has no GPU: leave it out"):
        price_per_hour(Node(name="n", cpu=Cpu(cores=2, memory_gib=8)), Prices(1.0))
