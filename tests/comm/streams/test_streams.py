"""Requests and answers between clients and servers of a stream."""

import os
import threading

import pytest
import torch

from gmi_drl.comm.streams import StreamSizes
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError
from tests.comm.streams.stream_ends import ANSWER, REQUEST, ends, post, serve, sizes_of, value_of


def test_a_request_is_answered_by_the_version_that_it_wants():
    with ends(sizes_of(clients=((1,),))) as made:
        server, client = made.server(), made.client(1)
        post(client, 3.0, version=7)
        assert serve(server) == [0]
        answer = client.take(0)
        assert (answer.version, value_of(answer)) == (7, 6.0)


def test_both_ends_count_how_long_they_wait():
    with ends(sizes_of(clients=((1,),))) as made:
        server, client = made.server(), made.client(1)
        asker = threading.Timer(0.02, post, (client, 1.0))
        asker.start()
        server.next_batch()
        asker.join()
        answerer = threading.Timer(0.02, server.answer, (0, 3.0))
        answerer.start()
        answer = client.take(0)
        answerer.join()
        assert answer.server_waited_s == pytest.approx(server.wait_s, abs=1e-6) and server.wait_s >= 0.01
        assert answer.server_fetched_s == 3.0 and client.wait_s >= 0.01
        post(client, 1.0)
        serve(server)
        before = client.wait_s
        client.take(0)
        assert client.wait_s == before


def test_requests_of_all_clients_and_members_make_one_batch():
    with ends(sizes_of(members=2)) as made:
        server, clients = made.server(wait_s=1.0), [made.client(1), made.client(2)]
        for number, client in enumerate(clients):
            for member in range(2):
                post(client, 10 * number + member, member)
        assert serve(server) == [0, 1, 2, 3]
        assert [value_of(client.take(member)) for client in clients for member in range(2)] == [0, 2, 20, 22]


def test_a_batch_goes_after_its_wait_though_a_client_has_not_posted():
    with ends() as made:
        server, client, _ = made.server(wait_s=0.002), made.client(1), made.client(2)
        post(client, 1.0)
        assert serve(server) == [0]


def test_a_server_that_shares_its_core_sleeps_also_for_less_than_a_millisecond(monkeypatch):
    with ends() as made:
        server, client, _ = made.server(wait_s=0.0009), made.client(1), made.client(2)
        looks, look = [], server._waiting
        monkeypatch.setattr(server, "_waiting", lambda: looks.append(0) or look())
        for _ in range(2):  # until what told of the clients was heard
            looks.clear()
            post(client, 1.0)
            assert serve(server) == [0]
            client.take(0)
        assert len(looks) <= 4, "before and after the sleep, and after a signal"


def test_a_full_batch_leaves_the_rest_for_the_next_which_begins_with_them():
    with ends(sizes_of(clients=((1, 2, 3),))) as made:
        server, clients = made.server(wait_s=1.0, most_rows=4), [made.client(gmi) for gmi in (1, 2, 3)]
        for client in clients:
            post(client, 1.0)
        assert serve(server) == [0, 1]
        clients[0].take(0)
        post(clients[0], 1.0)
        assert serve(server) == [2, 0]


def test_each_server_answers_its_own_clients():
    with ends(sizes_of(servers=(0, 5), clients=((1,), (2, 3)))) as made:
        first, second, clients = made.server(0), made.server(5), [made.client(gmi) for gmi in (1, 2, 3)]
        for client in clients:
            post(client, client.sizes.slots_of(1)[0] + 1.0)
        assert (serve(second), serve(first)) == ([0, 1], [0])
        assert [value_of(client.take(0)) for client in clients] == [2.0] * 3


def test_a_server_ends_when_all_clients_have_left():
    with ends() as made:
        server, clients = made.server(), [made.client(1), made.client(2)]
        post(clients[0], 1.0)
        serve(server)
        for client in clients:
            client.close()
        assert serve(server) == []


@pytest.mark.parametrize("awaits_successors", [False, True])
def test_a_client_that_has_left_and_ended_before_the_server_looks_has_left(awaits_successors):
    with ends(sizes_of(clients=((1,),)), hang_s=0.2) as made:
        server, client = made.server(awaits_successors=awaits_successors), made.client(1)
        server._notifier.poll_ended([1])
        client.close()
        made.end(1)
        assert server._notifier.poll_ended([1]) == [1]  # one sleep may see both
        assert serve(server) == []


def test_a_server_goes_on_without_a_client_that_has_ended_and_waits_no_more_for_it():
    with ends() as made:
        server, client, _ = made.server(wait_s=60.0), made.client(1), made.client(2)
        server._notifier.poll_ended([1, 2])
        made.end(2)
        post(client, 4.0)
        assert serve(server) == [0]
        made.end(1)
        with pytest.raises(PeerDiedError, match="GMI 1, GMI 2"):
            server.next_batch()


def test_a_server_waits_for_the_successor_of_its_last_client():
    with ends(sizes_of(clients=((1,),)), hang_s=0.2) as made:
        server, _ = made.server(awaits_successors=True), made.client(1)
        server._notifier.poll_ended([1])
        made.end(1)
        with pytest.raises(PeerSilentError, match=r"GMI 1\), and no successor has come"):
            server.next_batch()
        post(made.client(1, predecessors=1), 2.0)
        assert serve(server) == [0]


def test_the_successor_of_a_client_takes_only_its_own_answers():
    with ends(sizes_of(clients=((1,),))) as made:
        server, client = made.server(), made.client(1)
        post(client, 1.0)
        server.next_batch()
        successor = made.client(1, predecessors=1)
        post(successor, 5.0)
        server.answers[0]["action"].fill_(-1)
        server.answer(0)
        assert serve(server) == [0]
        assert value_of(successor.take(0)) == 10.0


def test_the_successor_of_a_server_answers_what_was_open():
    with ends(sizes_of(clients=((1,),))) as made:
        first, client = made.server(), made.client(1)
        post(client, 1.0)
        first.next_batch()
        assert serve(made.server()) == [0]
        assert value_of(client.take(0)) == 2.0


def test_a_client_waits_for_the_successor_of_its_server_and_goes_on_with_it():
    with ends(sizes_of(clients=((1,),))) as made:
        made.server()
        made.live_elsewhere(0)
        client = made.client(1, awaits_successors=True)
        for predecessors in (1, 2):
            post(client, predecessors)
            made.end(0)
            successor = made.server(predecessors=predecessors)
            made.live_elsewhere(0)
            answerer = threading.Timer(0.02, serve, (successor,))
            answerer.start()
            assert value_of(client.take(0)) == 2 * predecessors
            answerer.join()


def test_a_server_that_has_ended_is_named_if_no_successor_comes():
    with ends(sizes_of(clients=((1,),)), hang_s=0.1) as made:
        made.server()
        made.live_elsewhere(0)
        client, waiting = made.client(1), made.client(1, awaits_successors=True)
        post(client, 1.0)
        post(waiting, 1.0)
        made.end(0)
        with pytest.raises(PeerDiedError, match=r"GMI 0 .* ended and has not answered a request"):
            client.take(0)
        with pytest.raises(PeerSilentError, match=r"GMI 0 .* ended .* no successor has come for 0\.1 s"):
            waiting.take(0)


def test_silence_and_death_are_told_by_name():
    with ends(sizes_of(clients=((1,),)), hang_s=0.05) as made:
        server, client = made.server(), made.client(1)
        with pytest.raises(PeerSilentError, match=r"GMI 1 .* has not posted a request"):
            server.next_batch()
        post(client, 1.0)
        with pytest.raises(PeerSilentError, match=r"GMI 0 .* has not answered a request"):
            client.take(0)


@pytest.mark.parametrize("spin_s", [0.0, 0.001])
def test_two_processes(spin_s):
    with ends(sizes_of(clients=((1,),))) as made:
        server = made.server(spin_s=spin_s)
        if not (child := os.fork()):
            try:
                torch.set_num_threads(1)
                client = made.client(1, spin_s=spin_s)
                made.pids.set_pid(1, os.getpid())
                for number in range(100):
                    post(client, number)
                    assert value_of(client.take(0)) == 2 * number
                client.close()
                made.end(1)
                os._exit(0)
            finally:
                os._exit(1)
        while serve(server):
            pass
        assert os.waitpid(child, 0)[1] == 0


def test_misuse_is_refused():
    with ends(sizes_of(clients=((1,),))) as made:
        made.server()
        client = made.client(1)
        with pytest.raises(UsageError, match="no request under way"):
            client.take(0)
        post(client, 1.0)
        with pytest.raises(UsageError, match="take its answer"):
            post(client, 1.0)
        with pytest.raises(UsageError, match="neither a server nor a client"):
            made.join(9)
        made.sizes = sizes_of(clients=((1,),), members=2)
        with pytest.raises(UsageError, match="members 1 and 2"):
            made.join(1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 0},
        {"members": 0},
        {"servers": (0, 1), "clients": ((1,), (2,))},
        {"clients": ((),)},
        {"clients": ((1,), (2,))},
    ],
    ids=str,
)
def test_sizes_that_no_stream_can_have(wrong):
    right = {"rows": 2, "servers": (0,), "clients": ((1,),), "members": 1}
    with pytest.raises(UsageError):
        StreamSizes(REQUEST, ANSWER, **right | wrong)


def test_a_file_that_is_no_stream_is_refused(tmp_path):
    with ends() as made, open(tmp_path / "other", "wb+") as file:
        file.write(b"something else")
        file.flush()
        made.memory, own = file.fileno(), made.memory
        with pytest.raises(UsageError, match="not the memory of the inference stream"):
            made.join(0)
        made.memory = own


def test_once_a_client_has_left_nobody_waits_for_the_successor_of_another():
    """Clients leave when no more experience is needed."""
    with ends() as made:
        server = made.server(awaits_successors=True)
        first, _ = made.client(1), made.client(2)
        post(first, 1.0)
        assert serve(server) == [0]
        made.end(2)
        first.close()
        assert serve(server) == []
        server.close()


def test_a_client_that_ends_by_an_error_has_not_left_and_its_server_awaits_a_successor_of_another():
    with ends() as made:
        server = made.server(awaits_successors=True)
        failing, other = made.client(1), made.client(2)
        with pytest.raises(ValueError), failing:
            raise ValueError
        made.end(1)
        post(other, 1.0)
        assert serve(server) == [1]
        made.end(2)
        successor = made.client(2, predecessors=1)
        post(successor, 2.0)
        assert serve(server) == [1] and value_of(successor.take(0)) == 4.0
        with successor:
            pass
        assert serve(server) == []
        server.close()
