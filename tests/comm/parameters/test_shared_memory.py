import os
import threading

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.parameters import shared_memory
from gmi_drl.errors import GmiError, PeerSilentError, UsageError
from tests.comm.channels.traced_rollouts import parameters, sizes_of
from tests.comm.ranks import FORK


@pytest.fixture
def inherited():
    mailboxes, memory = create_mailboxes(range(3)), create_memory()
    yield memory, mailboxes
    mailboxes.close()
    os.close(memory)


@pytest.fixture
def ends(inherited):
    """Both trainers' and an agent's parameters."""
    sizes = sizes_of(agents=(2,), trainers=(0, 1))
    ends = [join_as_trainer(*inherited, gmi, sizes, 0.01) for gmi in (0, 1)] + [
        join_as_agent(*inherited, 2, sizes, 0.01)
    ]
    yield [end.parameters for end in ends]
    for end in ends:
        end.close()


def test_the_latest_wins(ends):
    writer, *readers = ends
    assert [reader.newest_version() for reader in ends] == [None] * 3
    for version in (7, 8, 9):
        writer.publish(version, parameters(version))
    for reader in readers:
        got = parameters()
        assert reader.newest_version() == reader.read_into(got) == 9
        assert all(part.equal(expected) for part, expected in zip(got, parameters(9), strict=True))


def test_the_count_is_read_before_the_version_that_it_announces(ends, monkeypatch):
    ends[0].publish(7, parameters(7))
    reader, read = ends[2], []

    class Traced:
        def __getitem__(self, place, words=reader._words):
            read.append(place)
            return words[place]

    monkeypatch.setattr(reader, "_words", Traced())
    monkeypatch.setattr(shared_memory, "order_loads", lambda: read.append("in order"))
    assert reader.newest_version() == 7
    assert read == [shared_memory._COUNT, "in order", shared_memory._VERSION + 1]


def test_before_the_first_who_reads_waits(ends):
    with pytest.raises(PeerSilentError, match=r"GMI 0 .* has not published parameters"):
        ends[2].read_into(parameters())


def test_versions_count_updates_and_one_publishes(ends):
    with pytest.raises(UsageError, match="GMI 0 publishes the parameters, not GMI 1"):
        ends[1].publish(0, parameters())
    ends[0].publish(3, parameters())
    for version in (3, 5, 2):
        with pytest.raises(UsageError, match=f"version {version} was published after 3"):
            ends[0].publish(version, parameters())


def test_other_tensors_are_refused(ends):
    ends[0].publish(0, parameters())
    wrong = [*parameters(), torch.zeros(1)]
    for act in (lambda: ends[0].publish(1, wrong), lambda: ends[2].read_into(wrong)):
        with pytest.raises(UsageError, match="these parameters take 192 bytes, their buffers have 128"):
            act()
    ends[0].publish(1, parameters(1))
    assert ends[2].read_into(parameters()) == 1


def test_parameters_are_packed_by_lines():
    assert packed_bytes(parameters()) == 64 + 64 and packed_bytes([torch.zeros(17), torch.zeros(())]) == 128 + 64


def test_a_copy_that_was_torn_is_made_again(ends):
    writer, _, reader = ends
    writer.publish(0, parameters())
    overtaken = parameters()

    class Overtaken:
        """A tensor during whose copy the writer comes round to the same buffer, for the first time."""

        def __getattr__(self, name):
            return getattr(overtaken[0], name)

        def detach(self):
            return self

        def copy_(self, part):
            if writer.newest_version() == 0:
                for version in (1, 2):
                    writer.publish(version, parameters(version))
            overtaken[0].copy_(part)

    assert reader.read_into([Overtaken(), overtaken[1]]) == 2
    assert all(part.equal(expected) for part, expected in zip(overtaken, parameters(2), strict=True))


def test_what_is_always_torn_is_an_error(ends, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.parameters.shared_memory._MOST_READS", 10)
    ends[0].publish(0, parameters())
    ends[0]._words[1 + 1] += 2  # as if the writer were at it always
    with pytest.raises(GmiError, match="none of 10 copies of them was whole"):
        ends[2].read_into(parameters())


def test_no_reader_in_another_process_sees_a_torn_one(inherited):
    sizes = sizes_of(agents=(2,), trainers=(0, 1))
    large = [torch.zeros(100_000), torch.zeros(1000, dtype=torch.float64)]
    sizes = type(sizes)(**{**vars(sizes), "parameter_bytes": packed_bytes(large)})
    writer = join_as_trainer(*inherited, 0, sizes, 60)
    reading, answer = FORK.Event(), FORK.SimpleQueue()

    def read():
        reader, got, versions = (
            join_as_agent(*inherited, 2, sizes, 60).parameters,
            [torch.zeros_like(p) for p in large],
            [],
        )
        while not versions or versions[-1] < 300:
            version = reader.read_into(got)
            if any(part.ne(version).any() for part in got):
                versions = ["torn"]
                break
            versions.append(version)
            reading.set()
        answer.put(versions)
        os._exit(0)

    process = FORK.Process(target=read)
    process.start()
    ended = threading.Timer(60, process.kill)
    ended.start()
    for version in range(301):
        writer.parameters.publish(version, [part.fill_(version) for part in large])
        assert version or reading.wait(60)
    versions = answer.get()
    ended.cancel()
    process.join()
    assert versions == sorted(versions) and versions[-1] == 300
    writer.close()
