"""Whatever the order in which clients post, servers answer and processes end: each request has its own answer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comm.streams.stream_ends import ends, post, serve, sizes_of, value_of

MEMBERS = 2


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
