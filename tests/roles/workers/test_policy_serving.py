"""What a policy worker does with requests: it answers them, or refuses who asks for what there is not."""

from contextlib import suppress
from random import Random

import pytest
from bad_bytes import bad_frames
from fuzz_ends import stream_frames

from gmi_drl.errors import GmiError, PeerDiedError
from gmi_drl.roles.workers.policy import serve
from tests.comm.streams.stream_ends import ends, post, sizes_of, value_of
from tests.comm.streams.test_far_streams import FAR, far_ends, far_fuzzed


class Published:
    """Versions up to 3, of an agent that is a number."""

    wait_s = 0.0

    def at_least(self, version):
        return (2.0, 3) if version <= 3 else None


def doubled(agent, what, requests, answers):
    for request, answer in zip(requests, answers, strict=True):
        answer["action"].copy_(agent * request["obs"][:, :1])


def test_a_far_actor_that_asks_for_a_version_far_ahead_is_dropped_by_name_and_the_others_are_served(capfd):
    with far_ends(near=(1,), members=2) as (made, server, far):
        near = made.client(1)
        post(far, 1.0, 0, version=3)
        post(far, 1.0, 1, version=2**40)
        post(near, 2.0, 0, version=3)
        near.close()
        assert serve(server, Published(), doubled)["requests"] in (1, 2)
        assert value_of(near.take(0)) == 4.0
        with pytest.raises(PeerDiedError, match="GMI 0 on another host ended"):
            far.take(1)
        told = capfd.readouterr().err
        assert told.startswith(f"GMI {FAR} on another host: it asked for version {2**40} of the policy")
        assert told.count("its connection was closed, other actors are served") == 1


def test_the_error_of_a_policy_worker_without_another_actor_says_what_was_asked():
    with far_ends() as (_, server, far):
        post(far, 1.0, version=9)
        with pytest.raises(PeerDiedError, match="it asked for version 9 of the policy, which trainers have not"):
            serve(server, Published(), doubled)


def test_a_far_actor_that_asks_what_there_is_not_is_dropped_by_name_and_the_others_are_served(capfd):
    with far_ends(near=(1,)) as (made, server, far):
        near = made.client(1)
        far.post(0, what=7)
        post(near, 2.0)
        near.close()
        serve(server, Published(), doubled)
        assert value_of(near.take(0)) == 4.0
        with pytest.raises(PeerDiedError, match="GMI 0 on another host ended"):
            far.take(0)
        told = f"GMI {FAR} on another host: it asked question 7, and policy workers answer 0 and 1: its connection was"
        assert capfd.readouterr().err.startswith(told)


def test_an_actor_of_this_host_that_asks_what_there_is_not_ends_the_policy_worker_in_words():
    with ends(sizes_of()) as made:
        server, good, wrong = made.server(), made.client(1), made.client(2)
        post(good, 1.0)
        wrong.post(0, what=-1)
        with pytest.raises(GmiError, match=r"^GMI 2: it asked question -1, and policy workers answer 0 and 1$"):
            serve(server, Published(), doubled)


@pytest.mark.parametrize("seed", range(100))
def test_frames_of_chance_are_refused_or_answered(seed):
    with far_fuzzed() as (server, other):
        chance = Random(seed)
        other.sendall(bad_frames(chance, stream_frames(chance, server.sizes)))
        with suppress(GmiError):
            serve(server, Published(), doubled)


def test_an_actor_of_this_host_that_asks_for_such_a_version_ends_the_policy_worker_by_name():
    with ends(sizes_of()) as made:
        server, good, wrong = made.server(), made.client(1), made.client(2)
        post(good, 1.0, version=3)
        post(wrong, 1.0, version=5)
        with pytest.raises(GmiError, match="GMI 2: it asked for version 5"):
            serve(server, Published(), doubled)
