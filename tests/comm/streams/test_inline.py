"""Inline inference has the face of a stream's client."""

import pytest

from gmi_drl.comm.streams.inline import InlineStream
from gmi_drl.errors import UsageError
from tests.comm.streams.stream_ends import ANSWER, REQUEST, post, value_of


def test_what_the_ring_has_ready_is_one_batch():
    batches = []

    def respond(what, requests, answers):
        batches.append((what, len(requests)))
        for request, answer in zip(requests, answers, strict=True):
            answer["action"].copy_(2 * request["obs"][:, :1])
        return 4

    stream = InlineStream(REQUEST, ANSWER, 3, respond)
    for member in (0, 1):
        post(stream, 1.0 + member, member)
    stream.post(2, what=1)
    assert [value_of(stream.take(member)) for member in (1, 0)] == [4.0, 2.0]
    assert batches == [(0, 2)]
    assert stream.take(2).version == 4
    assert batches == [(0, 2), (1, 1)]
    with pytest.raises(UsageError, match="no request under way"):
        stream.take(2)
    post(stream, 1.0)
    with pytest.raises(UsageError, match="take its answer"):
        post(stream, 1.0)
