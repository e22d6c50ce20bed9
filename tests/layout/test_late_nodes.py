"""Which nodes may join a run later."""

import pytest
from test_pools import ACTS, ASKS, SERVES, TRAINS, over

from gmi_drl.layout.channels import Streams
from gmi_drl.layout.late_nodes import late_actors, late_nodes, starts_without


def layout_of(fewest, **nodes):
    return over(**nodes).model_copy(update={"streams": Streams(fewest_actors=fewest)})


def test_nodes_of_actors_alone_may_join_later_but_the_one_of_the_first_actor_of_a_pool():
    layout = layout_of(1, a=[TRAINS, SERVES], b=[ASKS], c=[ACTS, ACTS], d=[ASKS, SERVES], e=[ACTS])
    assert late_nodes(layout) == {"c", "e"} and late_actors(layout) == {3, 4, 7}


@pytest.mark.parametrize(
    ("fewest", "absent", "starts"),
    [(2, {"b"}, True), (2, {"b", "c"}, False), (1, {"b", "c"}, True), (1, {"a"}, False), (None, {"b"}, False)],
)
def test_a_run_starts_without_nodes_while_enough_actors_are_left(fewest, absent, starts):
    layout = layout_of(fewest, a=[TRAINS, ACTS], b=[ACTS], c=[ACTS])
    assert starts_without(layout, absent) is starts
    assert starts_without(layout, set())
