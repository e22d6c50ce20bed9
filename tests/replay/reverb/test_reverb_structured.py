"""Structured writers: patterns, conditions, priorities, signatures."""

import numpy as np
import pytest

from gmi_drl.replay import reverb
from gmi_drl.replay.reverb import structured
from gmi_drl.replay.reverb.structured import Condition
from tests.replay.reverb.reverb_servers import served

STEP = {"a": None, "b": {"c": None}}
REF = structured.create_reference_step(STEP)


def written(configs, steps, *, ends=True):
    """The items that configs make of steps, in order, each with its priority."""
    with served(reverb.Table.queue("queue", 100)) as (_, client):
        writer = client.structured_writer(configs)
        for step in steps:
            writer.append(step)
        writer.end_episode() if ends else writer.flush()
        count = client.server_info()["queue"].current_size
        if not count:
            return []
        samples = client.sample("queue", count, emit_timesteps=False)
        return [([column.tolist() for column in sample.data], sample.info.priority) for sample in samples]


def numbered(count):
    return [{"a": number, "b": {"c": np.float32(number) / 2}} for number in range(count)]


@pytest.mark.parametrize(
    ("condition", "applied"),
    [
        (Condition.step_index() < 2, [0, 1]),
        (Condition.step_index() > 3, [4, 5]),
        (Condition.step_index() % 2 != 0, [1, 3, 5]),
        (Condition.steps_since_applied() >= 4, [3]),
        (Condition.is_end_episode(), [5]),
        (Condition.data(STEP)["a"] == 2, [2]),
        (Condition.data(STEP)["a"] <= 1, [0, 1]),
    ],
)
def test_items_are_made_when_all_conditions_hold(condition, applied):
    config = structured.create_config(REF["a"][-1], "queue", [condition, Condition.step_index() >= 0])
    assert written([config], numbered(6)) == [([step], 1.0) for step in applied]


def test_patterns_take_steps_from_the_end():
    pattern = {"x": REF["a"][-3], "y": REF["b"]["c"][-2:], "z": REF["a"][-5:-1:2]}
    config = structured.create_config(pattern, "queue", priority=structured.constant_priority_fn(2.5))
    assert written([config], numbered(6)) == [([2, [1.5, 2.0], [0, 2]], 2.5), ([3, [2.0, 2.5], [1, 3]], 2.5)]


def test_steps_without_a_field_make_no_item_of_it():
    config = structured.create_config(REF["b"]["c"][-2:], "queue")
    steps = numbered(6)
    steps[2]["b"]["c"] = None
    assert [item for [item], _ in written([config], steps)] == [[0.0, 0.5], [1.5, 2.0], [2.0, 2.5]]


def test_priorities_are_computed_from_errors():
    pattern = {"a": REF["a"][-2:], "error": REF["b"]["c"][-2:]}
    priority = structured.td_error(0.25, STEP, lambda step: step["b"]["c"])
    config = structured.create_config(pattern, "queue", priority=priority)
    steps = [{"a": 0, "b": {"c": error}} for error in (1.0, -3.0, 2.0)]
    assert [found for _, found in written([config], steps)] == [0.25 * 3 + 0.75 * 2, 0.25 * 3 + 0.75 * 2.5]


def test_a_partial_step_makes_each_item_once():
    with served(reverb.Table.queue("queue", 100)) as (_, client):
        configs = [
            structured.create_config(REF["a"][-1], "queue"),
            structured.create_config(REF["b"]["c"][-1], "queue"),
        ]
        writer = client.structured_writer(configs)
        writer.append({"a": 1, "b": {"c": None}}, partial_step=True)
        assert writer.step_is_open
        writer.append({"a": None, "b": {"c": 2.5}})
        assert not writer.step_is_open
        with pytest.raises(ValueError, match="got 1 but wanted 2"):
            writer.append([3])
        with pytest.raises(ValueError, match=r"column 0 \(path=\('a',\)\). Got double but expected int64"):
            writer.append({"a": 1.5, "b": {"c": 2.5}})
        writer.end_episode()
        assert [one.data[0] for one in client.sample("queue", 2, emit_timesteps=False)] == [1, 2.5]


@pytest.mark.parametrize(
    "key", [0, 1, slice(None, 0), slice(2, None), slice(-2, -2), slice(-2, 1), slice(None, -1, 2), slice(-2, None, 0)]
)
def test_patterns_that_are_no_steps_before_the_end_are_refused(key):
    with pytest.raises(ValueError, match="`st"):
        REF["a"][key]


def test_signatures_are_inferred():
    spec = {"a": np.zeros((), np.int64), "b": {"c": np.zeros((2, 3), np.float32)}}
    configs = [structured.create_config({"x": REF["b"]["c"][-length:], "y": REF["a"][-1]}, "t") for length in (2, 3)]
    expected = {"x": reverb.TensorSpec((None, 2, 3), np.float32), "y": reverb.TensorSpec((), np.int64)}
    assert structured.infer_signature(configs, spec) == expected
    other = structured.create_config({"x": REF["a"][-2:], "y": REF["a"][-1]}, "t")
    with pytest.raises(ValueError, match="multiple dtypes at"):
        structured.infer_signature([*configs, other], spec)
