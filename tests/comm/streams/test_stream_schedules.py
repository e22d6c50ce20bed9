"""Whatever the order in which clients post, servers answer and processes end: each request has its own answer."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.streams.slots import ANSWERED, POSTED
from tests.comm.streams.stream_ends import ends, post, serve, sizes_of, value_of

MEMBERS = 2
STORES_OF_POST, STORES_OF_ANSWER = 4, 6  # of a request


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["post", "serve", "take", "client", "server", "half"]), st.integers(0, 3))))
def test_each_request_has_its_own_answer(steps):
    with ends(sizes_of(members=MEMBERS)) as made:
        server, clients, number = made.server(), {gmi: made.client(gmi) for gmi in (1, 2)}, 0
        asked, lives = {}, {1: 0, 2: 0}
        for step, who in steps:
            gmi, member = 1 + who // MEMBERS, who % MEMBERS
            if step == "post" and (gmi, member) not in asked:
                asked[gmi, member] = number = number + 1
                post(clients[gmi], number, member)
            elif step == "serve" and server._waiting():
                serve(server)
            elif step == "half" and server._waiting():  # a server that computes while others go on, or ends
                server.next_batch()
            elif step == "take" and (gmi, member) in asked:
                if server._waiting():
                    serve(server)
                assert value_of(clients[gmi].take(member)) == 2 * asked.pop((gmi, member))
            elif step == "client":
                lives[gmi] += 1
                clients[gmi] = made.client(gmi, predecessors=lives[gmi])
                asked = {key: value for key, value in asked.items() if key[0] != gmi}
            elif step == "server":
                server = made.server()
        while server._waiting():
            serve(server)
        assert {key: value_of(clients[key[0]].take(key[1])) for key in asked} == {
            key: 2 * value for key, value in asked.items()
        }


class EndedError(Exception):
    """Raised where a process is killed."""


class StopsAfter:
    """Words of a process that is killed after so many stores."""

    def __init__(self, words, stores):
        self.words, self.left = words, stores

    def __getitem__(self, place):
        return self.words[place]

    def __setitem__(self, place, value):
        if not self.left:
            raise EndedError
        self.left -= 1
        self.words[place] = value


@pytest.mark.parametrize("of_post", range(STORES_OF_POST + 1))
def test_a_client_and_a_server_that_end_between_two_stores_lose_nothing_and_do_nothing_twice(of_post):
    """A client ends in a post, and the server in its answer, when the client's successor has posted already."""
    whole = of_post == STORES_OF_POST
    for of_answer in range((3 + whole) * STORES_OF_ANSWER + 1):
        with ends(sizes_of(members=MEMBERS)) as made:
            server, ending, lasting = made.server(), made.client(1), made.client(2)
            for member, value in enumerate((1, 2)):
                post(lasting, value, member)
            post(ending, 3, 0)
            ending._words = StopsAfter(ending._words, of_post)
            with suppress(EndedError):
                post(ending, 4, 1)
            successor = made.client(1, predecessors=1)
            batch, words = server.next_batch(), server._words
            assert sorted(batch) == ([0, 1, 2, 3] if whole else [0, 2, 3])
            for slot in batch:
                server.answers[slot]["action"].copy_(2 * server.requests[slot]["obs"][:, :1])
            for member, value in enumerate((5, 6)):
                post(successor, value, member)
            server._words = StopsAfter(words, of_answer)
            with suppress(EndedError):
                server.answer(0)
            seen = {
                slot for slot in batch if words[server._lines[slot] + ANSWERED] == words[server._lines[slot] + POSTED]
            }
            again, server = list[int](), made.server(predecessors=1)
            while server._waiting():
                again += serve(server)
            assert sorted(again) == sorted({0, 1, 2, 3} - seen), "the others once, and what was answered not again"
            given = [value_of(client.take(member)) for client in (lasting, successor) for member in range(MEMBERS)]
            assert given == [2, 4, 10, 12] and seen <= {2, 3}
