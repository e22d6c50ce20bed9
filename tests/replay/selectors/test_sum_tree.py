import pytest
import torch

from gmi_drl.replay.selectors.host_sum_tree import HostSumTree
from gmi_drl.replay.selectors.sum_tree import SumTree


@pytest.fixture(params=["host", "any device"])
def make_tree(request):
    """The tree of a CPU, and that of all devices."""
    return HostSumTree if request.param == "host" else lambda capacity: SumTree(capacity, "cpu")


def random_tree(make_tree, capacity, seed=0):
    chance = torch.Generator().manual_seed(seed)
    tree = make_tree(capacity)
    for count in (1, 40, 3000):
        leaves = torch.randperm(capacity, generator=chance)[:count]
        tree.set(leaves, torch.rand(len(leaves), dtype=torch.float64, generator=chance))
    return tree


@pytest.mark.parametrize("capacity", [1, 32, 33, 5000, 40_000, 2_000_000])
def test_sums_are_those_of_the_leaves(make_tree, capacity):
    tree = random_tree(make_tree, capacity)
    assert len(tree.leaves) >= capacity
    for below, level in zip(tree.levels, tree.levels[1:], strict=False):
        assert torch.allclose(level, below.view(-1, 32).sum(1), rtol=1e-12)


def test_of_a_leaf_that_is_there_twice_the_last_weight_counts():
    tree = HostSumTree(100)
    tree.set(torch.tensor([5, 6, 5, 5]), torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    assert tree.leaves[5] == 4
    assert tree.total == 6


@pytest.mark.parametrize("capacity", [5000, 40_000, 2_000_000])
def test_points_find_the_leaf_at_which_the_running_sum_passes_them(make_tree, capacity):
    tree = random_tree(make_tree, capacity)
    running = tree.leaves.cumsum(0)
    points = torch.rand(500, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * running[-1]
    assert torch.equal(tree.find(points), torch.searchsorted(running, points, right=True))


@pytest.mark.parametrize("capacity", [4000, 40_000, 2_000_000])
def test_a_leaf_of_weight_0_is_never_found(make_tree, capacity):
    """Weights of many sizes, whose sums are rounded; and points at and beyond both ends."""
    tree = make_tree(capacity)
    leaves = torch.arange(0, capacity, 7)
    chance = torch.Generator().manual_seed(2)
    tree.set(leaves, 10 ** (30 * torch.rand(len(leaves), dtype=torch.float64, generator=chance) - 15))
    ends = torch.tensor([0.0, 1.0, 1.0 + 1e-9], dtype=torch.float64)
    points = torch.cat((torch.rand(5000, dtype=torch.float64, generator=chance), ends)) * tree.total
    assert (tree.leaves[tree.find(points)] > 0).all()


def test_the_first_point_passes_nodes_of_weight_0_on_every_level(make_tree):
    """The lower end lies at the border of all of them."""
    tree = make_tree(2_000_000)
    first = len(tree.leaves) // len(tree.levels[-1]) + 40  # the first node of the highest level is empty
    tree.set(torch.tensor([first]), torch.tensor([2.0], dtype=torch.float64))
    assert tree.find(torch.zeros(1, dtype=torch.float64)).tolist() == [first]


def test_sums_do_not_drift(make_tree):
    tree = make_tree(64)
    for i in range(300):
        tree.set(torch.tensor([3]), torch.tensor([1e12 if i % 2 else 1e-12], dtype=torch.float64))
    tree.set(torch.tensor([3]), torch.tensor([0.0], dtype=torch.float64))
    assert tree.total == 0
    tree.set(torch.tensor([3]), torch.tensor([2.0], dtype=torch.float64))
    assert tree.total == 2
    tree.clear()
    assert tree.total == 0
    assert not tree.leaves.any()


def test_the_last_point_finds_a_leaf_with_a_weight_however_sums_were_rounded(make_tree):
    tree, chance = make_tree(40_000), torch.Generator().manual_seed(3)
    for _ in range(50):
        tree.set(torch.arange(31), torch.rand(31, dtype=torch.float64, generator=chance))  # the last of the node has 0
        last = tree.total.nextafter(torch.zeros((), dtype=torch.float64))
        assert tree.leaves[tree.find(last[None])] > 0


def test_a_tree_that_takes_over_another_has_its_sums(make_tree):
    tree, other = make_tree(100), random_tree(make_tree, 100)
    assert tree.total == 0
    tree.load(other.levels)
    assert tree.total == other.total
