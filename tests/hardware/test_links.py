from itertools import combinations

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.hardware.links import best_linked, link_between, slowest_link
from gmi_drl.hardware.node import KINDS, Cpu, Gpus, Links, Node


def node(count=8, link="pcie", **islands):
    links = tuple(Links(gpus=gpus, kind=name.partition("_")[0]) for name, gpus in islands.items())
    return Node(name="n", gpus=Gpus(model="A", count=count), link=link, links=links, cpu=Cpu(cores=8, memory_gib=1))


TWO_ISLANDS = node(nvlink_a=(0, 2, 4, 6), nvlink_b=(1, 3, 5, 7))


def test_what_links_do_not_name_is_linked_by_the_default():
    assert link_between(TWO_ISLANDS, 4, 2) == "nvlink" and link_between(TWO_ISLANDS, 0, 1) == "pcie"
    assert slowest_link(TWO_ISLANDS, (1, 3, 5)) == "nvlink" and slowest_link(TWO_ISLANDS, (1, 3, 4)) == "pcie"
    assert slowest_link(TWO_ISLANDS, (1,)) == "none"


@pytest.mark.parametrize("count", range(1, 9))
def test_no_other_gpus_of_two_islands_are_linked_better(count):
    best = best_linked(TWO_ISLANDS, count)
    others = combinations(range(8), count)
    assert len(set(best)) == count
    assert KINDS.index(slowest_link(TWO_ISLANDS, best)) == min(
        KINDS.index(slowest_link(TWO_ISLANDS, o)) for o in others
    )


def test_a_whole_island_comes_before_parts_of_two():
    assert best_linked(TWO_ISLANDS, 4) == (0, 2, 4, 6)
    assert set(best_linked(TWO_ISLANDS, 6)) > {0, 2, 4, 6}


def test_large_islands_stay_whole_where_a_small_one_will_do():
    assert best_linked(node(nvlink_a=(0, 1, 2, 3), nvlink_b=(6, 7)), 2) == (6, 7)
    assert best_linked(node(nvlink_a=(0, 1), nvswitch=(4, 5, 6)), 2) == (4, 5)


def test_a_cluster_of_alike_gpus_needs_no_search():
    assert best_linked(node(count=10_000, link="nvswitch"), 5_000) == tuple(range(5_000))
    with pytest.raises(UsageError, match="9 GPUs are asked for, n has 8: ask for as many at most"):
        best_linked(TWO_ISLANDS, 9)


def test_only_gpus_in_use_are_chosen():
    used = TWO_ISLANDS.only((1, 3, 4, 6, 7))
    assert best_linked(used, 2) == (4, 6) and best_linked(used, 3) == (1, 3, 7)
    assert best_linked(used, 4) == (1, 3, 4, 7)
    assert best_linked(node().only((4, 5, 6)), 2) == (4, 5)
