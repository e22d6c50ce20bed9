"""Both kinds of an agent's end keep the same promises; over sockets these are of a far one and its proxy."""

import os
import threading
import time

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.channels.remote_protocol import FORWARD, LEASE, OPEN, PIECE, PIECE_HEAD, RECIPIENT
from gmi_drl.comm.links.framing import FIRST_OTHER_KIND
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError
from tests.comm.channels.proxy_pair import PROXY, ProxyPair, opening
from tests.comm.channels.traced_rollouts import parameters, pieces, rollouts_in, send, sizes_of, versions_in, write

HANG_S = 60.0


class Run:
    """Trainers, and agents that are near or far, in this process."""

    def __init__(self, sizes, is_far, hang_s=HANG_S, **more):
        self.sizes, self.is_far, self.hang_s, self.more = sizes, is_far, hang_s, more
        self.mailboxes, self.memory = create_mailboxes(range(1 + max(sizes.agents + sizes.trainers))), create_memory()
        self.trainers = [join_as_trainer(self.memory, self.mailboxes, gmi, sizes, hang_s) for gmi in sizes.trainers]
        self.trainer, self.threads, self.proxy_pairs, self.told = self.trainers[0], [], [], []
        self.agents = {gmi: self.open(gmi, sizes) for gmi in sizes.agents}
        self.trainer.parameters.publish(0, parameters())

    def open(self, gmi, sizes):
        if not self.is_far:
            return join_as_agent(self.memory, self.mailboxes, gmi, sizes, self.hang_s)
        return self.proxy_pair(gmi).agent_end(sizes, self.hang_s, **self.more)

    def proxy_pair(self, gmi):
        """With somebody who stands in."""
        self.proxy_pairs.append(proxy_pair := ProxyPair(gmi))
        self.threads.append(
            proxy_pair.serving(self.memory, self.mailboxes, self.hang_s, lambda text, to: self.told.append((text, to)))
        )
        return proxy_pair

    def update(self, version):
        came = [(rollouts_in(batch), versions_in(batch)) for batch in [trainer.take() for trainer in self.trainers]]
        self.trainer.parameters.publish(version, parameters(version))
        for trainer in self.trainers:
            trainer.give_back()
        return came if len(came) > 1 else came[0]

    def play(self, gmi):
        """A rollout by the newest parameters, which are whole; None at the end."""
        place, weights = self.agents[gmi].lease(), parameters()
        if place is None:
            return None
        version = self.agents[gmi].parameters.read_into(weights)
        assert all(weight.eq(version).all() for weight in weights)
        send(place, gmi, version)
        return version

    def close(self):
        for end in (*self.agents.values(), *self.trainers):
            end.close()
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive()
        for proxy_pair in self.proxy_pairs:
            proxy_pair.close()
        os.close(self.memory)
        self.mailboxes.close()


@pytest.fixture(params=[False, True], ids=["near", "far"])
def run(request):
    runs = []

    def start(hang_s=HANG_S, **sizes):
        runs.append(Run(sizes_of(**sizes), request.param, hang_s))
        return runs[-1]

    yield start
    for made in runs:
        made.close()


@pytest.fixture
def far_run():
    runs = []

    def start(hang_s=HANG_S, *, takes_parameters=True, **sizes):
        runs.append(Run(sizes_of(**sizes), True, hang_s, takes_parameters=takes_parameters))
        return runs[-1]

    yield start
    for made in runs:
        made.close()


@pytest.mark.parametrize("transfer_bytes", [1, 80, 2**20])
@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_a_batch_has_the_rollouts_in_the_order_of_their_leases(run, mode, transfer_bytes):
    run = run(rollouts=2, agents=(1, 2), mode=mode, max_lag=1, transfer_bytes=transfer_bytes)
    for gmi in (2, 1, 1, 2):
        run.play(gmi)
    assert [run.update(version)[0] for version in (1, 2)] == [[(2, 0), (1, 0)], [(1, 1), (2, 1)]]
    assert not run.trainer.dropped


def test_the_version_that_acts_is_the_newest_after_the_lease_and_the_lag_is_bounded(run):
    run, seen = run(max_lag=2), []
    for _ in range(3):
        run.play(1)
    for version in range(1, 6):
        seen.append(run.update(version)[1][0])
        assert run.play(1) == version
    assert seen == [0, 0, 0, 1, 2]


def test_rollouts_go_to_the_trainer_with_the_least_workload(run):
    run = run(rollouts=2, agents=(2, 3), trainers=(0, 1), max_lag=0)
    for gmi in (2, 3, 2, 3):
        run.play(gmi)
    assert [came for came, _ in run.update(1)] == [[(2, 0), (2, 1)], [(3, 0), (3, 1)]]


def test_what_is_written_out_of_turn_is_refused_and_one_place_is_leased_at_a_time(run):
    run = run(rollouts=2)
    place = run.agents[1].lease()
    write(place, 1, "obs", 0)
    with pytest.raises(UsageError, match="step 2 of 'obs' was written when step 1"):
        place.wrote("obs", 2)
    with pytest.raises(UsageError, match=r"obs has 1 of 3, action has 0 of 3"):
        place.commit()
    with pytest.raises(UsageError, match="the last place was not committed"):
        run.agents[1].lease()


def test_what_was_sent_arrives_after_the_end_closes_and_its_half_is_leased_again(run):
    run = run(rollouts=2, agents=(1, 2), max_lag=1)
    run.play(1)
    place = run.agents[1].lease()
    for kind, step in pieces()[:9]:
        write(place, 1, kind, step)
    run.agents.pop(1).close()
    if run.is_far:
        run.threads[0].join(HANG_S)
    MailboxMemory(run.mailboxes.memory).set_pid(1, 2**22 + 1)  # a process that there is not
    run.play(2)
    run.trainer._notifier.poll_ended(run.sizes.agents)
    run.trainer._process_events()
    assert run.trainer.dropped == {"GMI 1 ended": 1}
    run.play(2)
    assert run.update(1)[0] == [(1, 0), (2, 1)]


def test_after_the_end_nothing_is_leased_though_places_were_wanted(run):
    run = run(agents=(1, 2), max_lag=1)
    run.play(1)
    run.play(2)
    run.trainer.end_experience()
    assert [run.play(gmi) for gmi in (1, 2)] == [None, None]
    assert run.trainer.dropped.total() == 2


def test_an_end_of_other_sizes_is_refused_with_both(run):
    run = run(agents=(1, 2))
    if run.is_far:
        run.agents.pop(2).close()
    other = sizes_of(agents=(1, 2), max_lag=7)
    with pytest.raises(UsageError, match="other sizes than this GMI's: max_lag 2 and 7"):
        run.open(2, other)


def test_who_waits_for_room_in_a_queue_leases_nothing_more(run):
    made = run(hang_s=0.5, rollouts=3, agents=(1, 2, 3), max_lag=8, mode="MCC", transfer_bytes=2**20)
    played, room = 0, made.sizes.ring_records // len(made.sizes.form.kinds)
    with pytest.raises(GmiError, match=r"GMI 0 .* has not made room for experience"):
        while True:
            played += made.play(1) is not None
    assert played == room < made.sizes.places


def test_who_gives_back_no_place_is_named(run):
    run = run(hang_s=0.5, max_lag=0)
    run.play(1)
    with pytest.raises(
        PeerSilentError, match=r"GMI 0 \(process \d+\) lives but has not made room for experience for 1 s"
    ):
        run.agents[1].lease()
    assert run.agents[1].wait_s >= 1


def test_a_rollout_is_played_while_the_one_before_is_sent(far_run):
    """Its memory is another one, and serves again for the next but one."""
    run = far_run(rollouts=3)
    addresses = []
    for _ in range(4):
        place = run.agents[1].lease()
        addresses.append(place.views["obs"].data_ptr())
        send(place, 1)
    assert addresses[0] == addresses[2] != addresses[1] == addresses[3]


def test_parameters_travel_only_where_they_are_newer(far_run):
    run = far_run(rollouts=2, max_lag=1)
    versions, received = [], []
    for _ in range(3):
        versions.append(run.play(1))
        received.append(run.agents[1]._sender._connection.received)
    run.update(1)
    versions.append(run.play(1))
    received.append(run.agents[1]._sender._connection.received)
    assert versions == [0, 0, 0, 1]
    assert received == [run.sizes.parameter_bytes] * 3 + [2 * run.sizes.parameter_bytes]


def test_an_agent_that_takes_no_parameters_is_told_their_versions_alone(far_run):
    run = far_run(max_lag=0, takes_parameters=False)
    for version in range(3):
        place = run.agents[1].lease()
        assert run.agents[1].parameters.newest_version() == version
        send(place, 1, version)
        assert run.update(version + 1) == ([(1, version)], [version])
    assert run.agents[1]._sender._connection.received == 0
    with pytest.raises(UsageError, match="their buffers have 0"):
        run.agents[1].parameters.read_into(parameters())


def test_parameters_of_another_form_and_before_the_first_place_are_refused(far_run):
    agent = far_run().agents[1]
    assert agent.parameters.newest_version() is None
    with pytest.raises(UsageError, match="lease it first"):
        agent.parameters.read_into(parameters())
    agent.lease()
    with pytest.raises(UsageError, match="these parameters take 64 bytes"):
        agent.parameters.read_into([torch.zeros(1)])


def test_the_proxy_forwards_messages_to_trainers(far_run):
    run = far_run()
    proxy_pair = run.proxy_pair(1)
    run.agents[1].close()
    sender = proxy_pair.sender()
    sender.send(FORWARD, RECIPIENT.pack(0) + "what wörlds".encode())
    sender.wait_for(lambda: run.told, "told", HANG_S)
    assert run.told == [("what wörlds", 0)]
    sender.close()
    del run.agents[1]


def heard(sender, seconds=HANG_S):
    """The error that a proxy tells, to one that says what it should not."""
    with pytest.raises(GmiError) as caught:
        sender.wait_for(lambda: False, "told why", seconds)
    return str(caught.value)


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        ((0, 0, 1, 0, 0, 1), "but holds no place for it"),
        ((0, 1, 0, 0, 0, 1), "but holds no place for it"),
        ((1, 0, 0, 0, 0, 1), "but holds no place for it"),
        ((0, 0, 0, 99, 0, 1), "but holds no place for it"),
        ((0, 0, 0, -1, 0, 1), "but holds no place for it"),
        ((0, 0, 0, 0, 1, 2), "when step 0 of the kind was expected"),
        ((0, 0, 0, 0, 0, 4), "when step 0 of the kind was expected"),
        ((0, 0, 0, 0, 0, 0), "when step 0 of the kind was expected"),
    ],
)
def test_a_piece_that_does_not_follow_goes_nowhere(far_run, piece, why):
    run = far_run(rollouts=2)
    run.agents.pop(1).close()
    sender = run.proxy_pair(1).sender()
    sender.parameters = torch.empty(run.sizes.parameter_bytes, dtype=torch.uint8)
    sender.send(OPEN, opening(run.sizes))
    sender.send(LEASE)
    sender.wait_for(sender.has_reply, "leased", HANG_S)
    sender.send(PIECE, PIECE_HEAD.pack(*piece))
    assert why in heard(sender)
    sender.close()


def test_numbers_of_another_size_and_unknown_words_are_refused(far_run):
    run = far_run(rollouts=2)
    run.agents.pop(1).close()
    for spoil, why in (
        (lambda c: c.send(FIRST_OTHER_KIND + 99), "unknown kind"),
        (lambda c: c.send(OPEN, b"{}"), "no channel sizes"),
        (lambda c: c.send(OPEN, b"\x01\xff"), "GMI 1 sent a damaged frame: 'utf-8' codec"),
        (lambda c: c.send(PIECE, b"x"), "GMI 1 sent a damaged frame: "),
        (lambda c: [c.send(OPEN, opening(run.sizes)) for _ in range(2)], "of unknown kind 17, or twice"),
    ):
        spoil(sender := run.proxy_pair(1).sender())
        assert why in heard(sender)
        sender.close()
    sender = run.proxy_pair(1).sender()
    sender.parameters = torch.empty(run.sizes.parameter_bytes, dtype=torch.uint8)
    sender.send(OPEN, opening(run.sizes))
    sender.send(LEASE)
    sender.wait_for(sender.has_reply, "leased", HANG_S)
    sender.send_piece(0, PIECE_HEAD.pack(0, sender.take_grant().lease.place, 0, 0, 0, 1), memoryview(bytes(8)))
    assert "GMI 1 sent a damaged frame: 8 bytes of data came where 40 were expected" in heard(sender)
    sender.close()


def test_a_proxy_that_ends_is_named_and_nothing_waits_for_it(far_run):
    run = far_run(rollouts=2)
    proxy_pair = ProxyPair(1)
    run.agents.pop(1).close()
    thread = threading.Thread(target=lambda: proxy_pair._connection(PROXY).close())
    thread.start()
    sender = proxy_pair.sender()
    with pytest.raises(PeerDiedError, match=r"the proxy of GMI 1 with its trainers on node home ended while GMI 1"):
        sender.wait_for(lambda: sender.is_ready, "made room", HANG_S)
    thread.join()
    sender.close()
    proxy_pair.close()


def test_an_agent_whose_proxy_says_nothing_names_it(far_run):
    proxy_pair = ProxyPair(1)
    connections = []
    thread = threading.Thread(target=lambda: connections.append(proxy_pair._connection(PROXY)))
    thread.start()
    sender = proxy_pair.sender()
    thread.join()
    began = time.monotonic()
    with pytest.raises(PeerSilentError, match=r"the proxy of GMI 1 .* has not made room for 0.2 s while GMI 1"):
        sender.wait_for(lambda: sender.is_ready, "made room", 0.2)
    assert time.monotonic() - began >= 0.2
    sender.close()
    connections[0].close()
    proxy_pair.close()


def test_the_next_place_is_granted_while_the_last_rollout_is_under_way(far_run):
    run = far_run(rollouts=2)
    run.agents.pop(1).close()
    sender = run.proxy_pair(1).sender()
    sender.parameters = torch.empty(run.sizes.parameter_bytes, dtype=torch.uint8)
    sender.send(OPEN, opening(run.sizes))
    places = []
    for _ in range(2):
        sender.send(LEASE)
        sender.wait_for(sender.has_reply, "leased", HANG_S)
        places.append(sender.take_grant().lease.place)
    assert places == [0, 1]
    sender.close()
