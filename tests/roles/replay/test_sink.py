"""What a served policy sees is in a table: items of steps that follow each other, none of two episodes."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.files.block import Block
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table import Table
from gmi_drl.roles.replay.sink import TableSink
from gmi_drl.workload import TASK_SPECS
from tests.replay.servers import served

SPEC = TASK_SPECS["ball_balance"]
SIZE = SPEC.observation.size
FIELDS = (Field("obs", (SIZE,)), Field("reward"), Field("terminated", (), torch.bool))


def table(longest, fields=FIELDS):
    storage = make_storage(Signature(fields), 4096, longest=longest)
    return Table(
        "seen", storage.signature, sampler=Fifo(), remover=Fifo(), max_size=500, limiter=MinSize(1), storage=storage
    )


def block(first, steps, ends=(), wrong=(), truncated=()):
    """Two worlds whose observations are the number of the step, of world 1 plus 1000; final ones have plus 0.5."""
    number = torch.arange(first, first + steps, dtype=torch.float32)[:, None] + torch.tensor([0.0, 1000.0])
    flags = torch.zeros(3, steps, 2, dtype=torch.bool)
    for kind, places in enumerate((ends, truncated, wrong)):
        for t, world in places:
            flags[kind, t, world] = True
    terminated, truncated_, invalid = flags
    at = ((terminated | truncated_) & ~invalid).nonzero()
    obs = number[..., None].expand(steps, 2, SIZE)
    action = torch.zeros(steps, 2, SPEC.action.size)
    final = obs[at[:, 0], at[:, 1]] + 0.5
    return Block(obs, action, number, terminated, truncated_, ~invalid, obs[-1] + 1, final, at)


def items(client, count, longest):
    """The observations of each item, without the zeros behind shorter ones."""
    batch = client.sample("seen", count, distinct=True)
    return sorted(
        tuple(row[:steps].tolist())
        for row, steps in zip(batch.fields["obs"][:, :, 0], batch.lengths["step"].tolist(), strict=True)
    )


def test_transitions_go_on_from_block_to_block_and_end_with_their_episode():
    with served(table(2)) as (server, client), TableSink(f"{server.address}/seen", SPEC, 2) as sink:
        sink.take(block(0, 3))
        sink.take(block(3, 3, ends=[(1, 0)], wrong=[(2, 1)]))
        sink.close()
        first = [(n, n + 1.0) for n in (0.0, 1.0, 2.0, 3.0)] + [(4.0, 4.5)]
        second = [(1000.0 + n, 1001.0 + n) for n in range(4)]
        assert items(client, server.tables[0].size, 2) == sorted(first + second)


def test_items_at_an_end_are_shorter_and_have_the_last_observation():
    with served(table(4)) as (server, client), TableSink(f"{server.address}/seen", SPEC, 2) as sink:
        sink.take(block(0, 5, truncated=[(4, 0)]))
        sink.close()
        first = [(0.0, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0), (2.0, 3.0, 4.0, 4.5), (3.0, 4.0, 4.5), (4.0, 4.5)]
        second = [(1000.0, 1001.0, 1002.0, 1003.0), (1001.0, 1002.0, 1003.0, 1004.0)]
        assert items(client, server.tables[0].size, 4) == sorted(first + second)


def test_single_steps_have_no_row_behind_the_last():
    with served(table(1)) as (server, client), TableSink(f"{server.address}/seen", SPEC, 2) as sink:
        sink.take(block(0, 2, ends=[(1, 0)]))
        sink.close()
        assert items(client, server.tables[0].size, 1) == [(0.0,), (1.0,), (1000.0,), (1001.0,)]


@pytest.mark.parametrize(
    ("into", "fields", "words"),
    [
        ("{}", FIELDS, "expected HOST:PORT/TABLE"),
        ("{}/sen", FIELDS, "no table 'sen'"),
        ("{}/seen", (Field("obs", (SIZE + 1,)),), rf"field obs \[{SIZE + 1}\] torch.float32, a step of ball_balance"),
        ("{}/seen", (*FIELDS, Field("value")), "field value"),
        ("{}/seen", (Field("reward"),), "no field obs"),
    ],
    ids=["no-table", "unknown-table", "shape", "unknown-field", "no-obs"],
)
def test_other_tables_are_refused(into, fields, words):
    with served(table(2, fields)) as (server, _), pytest.raises(UsageError, match=words):
        TableSink(into.format(server.address), SPEC, 2)
