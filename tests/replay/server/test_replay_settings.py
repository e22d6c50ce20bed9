"""tables.yaml: what it makes, and what is told of mistakes."""

import pytest
import yaml

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.replay import Fifo, Prioritized, SampleToInsertRatio
from gmi_drl.replay.server.settings import ReplayTables

FILE = """
version: 1
storages:
  steps: {fields: {obs: {shape: [3]}, image: {shape: [2, 2], dtype: uint8, column: image}}, steps: 100, longest: 2}
tables:
  first:
    storage: steps
    max_size: 50
    sampler: {kind: prioritized, arguments: [0.6]}
    limiter: {kind: sample_to_insert_ratio, size: 10, ratio: 2, error_buffer: 8}
    max_times_sampled: 3
  second: {storage: steps, max_size: 20, sampler: {kind: top_k, arguments: [5]}}
"""


def changed(**more):
    content = yaml.safe_load(FILE)
    for path, value in more.items():
        *names, last = path.split("__")
        place = content
        for name in names:
            place = place[name]
        place[last] = value
    return content


def test_a_file_makes_its_tables():
    first, second = parse(ReplayTables, changed(), "tables.yaml").make()
    assert (first.name, first.contents.max_size, first.contents.max_times_sampled) == ("first", 50, 3)
    assert isinstance(first.contents.sampler, Prioritized) and isinstance(first.contents.remover, Fifo)
    limiter = first.limiter
    assert isinstance(limiter, SampleToInsertRatio)
    assert (limiter.spi, limiter.min_size, limiter.min_diff, limiter.max_diff) == (2, 10, 12, 28)
    assert first.storage is second.storage and first.storage.longest == 2
    assert first.signature.columns == ("step", "image")
    assert first.storage.steps >= 100 + 64 * first.storage.blocks.block_steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tables__first__storage": "step"}, "no storage 'step'"),
        ({"tables__first__sampler": {"kind": "unifrom"}}, "did you mean 'uniform'"),
        ({"tables__first__limiter": {"kind": "queue", "size": 3, "ratio": 2.0}}, "takes size, not size, ratio"),
        ({"tables__first__limiter": {"kind": "sample_to_insert_ratio", "size": 3}}, "ratio, error_buffer, not size"),
        ({"tables__first__max_size": 0}, "tables.first.max_size"),
        ({"storages__other": {"fields": {"obs": {}}, "steps": 5}}, "without a table: other"),
        ({"storages__steps__fields": {"obs": {"dtype": "float33"}}}, "no type 'float33'"),
        ({"tables__first__max_size": 5}, "min_size 10 is above max_size 5"),
        ({"tables__first__sampler": {"kind": "fifo", "arguments": [3]}}, "the selector 'fifo'"),
        ({"tables": {}}, "there is none"),
        ({"tables__first__size": 5}, "size"),
    ],
)
def test_mistakes_are_told(change, words):
    with pytest.raises(UsageError, match=words):
        parse(ReplayTables, changed(**change), "tables.yaml").make()
