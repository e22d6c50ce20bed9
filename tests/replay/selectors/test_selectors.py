"""Every selector against a plain list of items, and the shares of what is drawn."""

import random

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, TopK, Uniform, make_selector
from gmi_drl.replay.selectors.base import Selector

CAPACITY = 50
ALL = [Fifo, Lifo, MaxHeap, MinHeap, Uniform, lambda: Prioritized(0.7), lambda: TopK(5)]


def opened(make) -> Selector:
    selector = make()
    selector.open(CAPACITY)
    return selector


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Model:
    """The items `[slot, priority]` in the order of insertion; `changed` in that of the last change."""

    def __init__(self):
        self.order, self.changed, self.priorities = [], [], {}

    def insert(self, slots, priorities):
        self.order += slots
        self.update(slots, priorities)

    def update(self, slots, priorities):
        for slot, priority in zip(slots, priorities, strict=True):
            if slot in self.changed:
                self.changed.remove(slot)
            self.changed.append(slot)
            self.priorities[slot] = priority

    def delete(self, slots):
        for slot in slots:
            self.order.remove(slot)
            self.changed.remove(slot)
            del self.priorities[slot]

    def first(self, selector, count):
        """What the first `count` selections must be, as sets of what each may be."""
        by_priority = sorted(self.changed, key=self.priorities.__getitem__)
        if isinstance(selector, MaxHeap):
            return sorted(self.changed, key=lambda slot: -self.priorities[slot])[:count]
        if isinstance(selector, MinHeap):
            return by_priority[:count]
        return self.order[:count] if isinstance(selector, Fifo) else self.order[::-1][:count]


def walk(selector, model, steps, seed, after=lambda: None):
    chance = random.Random(seed)
    for _ in range(steps):
        free = [slot for slot in range(CAPACITY) if slot not in model.priorities]
        what, count = chance.choice(("insert", "insert", "update", "delete")), chance.randint(1, 12)
        priorities = [float(chance.randint(0, 4)) for _ in range(count)]
        if what == "insert" and len(free) >= count:
            slots = chance.sample(free, count)
            model.insert(slots, priorities)
            selector.inserted(torch.tensor(slots), torch.tensor(priorities, dtype=torch.float64))
        elif what == "update" and model.order:
            slots = chance.choices(model.order, k=count)
            model.update(slots, priorities)
            selector.updated(torch.tensor(slots), torch.tensor(priorities, dtype=torch.float64))
        elif what == "delete" and len(model.order) >= count:
            slots = chance.sample(model.order, count)
            model.delete(slots)
            selector.deleted(torch.tensor(slots))
        after()


@pytest.mark.parametrize("make", [Fifo, Lifo, MaxHeap, MinHeap])
def test_what_is_not_random_is_in_order(make):
    selector, model = opened(make), Model()

    def check():
        if count := len(model.order):
            slots, probabilities = selector.select(3, generator())
            assert slots.tolist() == model.first(selector, 1) * 3
            assert probabilities.tolist() == [1.0] * 3
            half = (count + 1) // 2
            assert selector.select_distinct(half, generator())[0].tolist() == model.first(selector, half)

    walk(selector, model, 400, 1, check)
    with pytest.raises(UsageError, match=f"{len(model.order) + 1} distinct .* only {len(model.order)} can"):
        selector.select_distinct(len(model.order) + 1, generator())


def shares(model, selector):
    """The probability of each slot."""
    items = model.priorities
    if isinstance(selector, Uniform):
        return {slot: 1 / len(items) for slot in items}
    if isinstance(selector, TopK):
        raise AssertionError
    weights = {slot: priority**selector.exponent if priority else 0.0 for slot, priority in items.items()}
    total = sum(weights.values())
    return {slot: weight / total if total else 1 / len(items) for slot, weight in weights.items()}


def chi_squared_per_degree(slots, wanted):
    counts = torch.bincount(slots, minlength=CAPACITY).tolist()
    assert sum(count for slot, count in enumerate(counts) if not wanted.get(slot)) == 0
    drawn = len(slots)
    parts = [(counts[slot] - share * drawn) ** 2 / (share * drawn) for slot, share in wanted.items() if share]
    return sum(parts) / max(1, len(parts) - 1)


@pytest.mark.parametrize(
    "make", [Uniform, lambda: Prioritized(0.7), lambda: Prioritized(0.0), lambda: Prioritized(2.0)]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_draws_have_the_shares_that_were_told(make, seed):
    selector, model = opened(make), Model()
    walk(selector, model, 100 + seed, seed)
    slots, probabilities = selector.select(20_000, generator(seed))
    wanted = shares(model, selector)
    assert probabilities.tolist() == pytest.approx([wanted[slot] for slot in slots.tolist()])
    assert chi_squared_per_degree(slots, wanted) < 2.5  # 30 to 50 degrees: 1 in 10^5


@pytest.mark.parametrize("make", [Uniform, lambda: Prioritized(1.0)])
def test_distinct_draws_are_those_without_replacement(make):
    """Of the weights 1, 2, 3 the first two: pairs have known probabilities, in order."""
    selector = opened(make)
    selector.inserted(torch.tensor([4, 7, 9, 11]), torch.tensor([1.0, 2.0, 3.0, 0.0], dtype=torch.float64))
    if make is Uniform:
        selector.deleted(torch.tensor([11]))
    weights = {4: 1.0, 7: 2.0, 9: 3.0} if make is not Uniform else dict.fromkeys((4, 7, 9), 1.0)
    total, chance = sum(weights.values()), generator(3)
    counts = {}
    for _ in range(2000):
        pair = tuple(selector.select_distinct(2, chance)[0].tolist())
        counts[pair] = counts.get(pair, 0) + 1
    for (one, other), count in counts.items():
        wanted = weights[one] / total * weights[other] / (total - weights[one]) * 2000
        assert abs(count - wanted) < 5 * wanted**0.5
    assert len(counts) == 6
    with pytest.raises(UsageError, match="4 distinct items are wanted, but only 3"):
        selector.select_distinct(4, generator())
    assert selector.select(50, generator())[0].tolist() != []  # its weights are as before
    assert sorted(set(selector.select(500, generator())[0].tolist())) == [4, 7, 9]


def test_if_all_priorities_are_0_each_is_as_likely():
    selector = opened(lambda: Prioritized(0.5))
    selector.inserted(torch.tensor([3, 5]), torch.zeros(2, dtype=torch.float64))
    slots, probabilities = selector.select(2000, generator())
    assert probabilities.unique().tolist() == [0.5]
    assert 850 < int((slots == 3).sum()) < 1150
    slots, probabilities = selector.select_distinct(2, generator())
    assert sorted(slots.tolist()) == [3, 5] and probabilities.tolist() == [0.5, 0.5]
    with pytest.raises(UsageError, match="3 distinct"):
        selector.select_distinct(3, generator())


def test_one_of_the_k_highest():
    selector = opened(lambda: TopK(2))
    selector.inserted(torch.tensor([1, 2, 3]), torch.tensor([5.0, 7.0, 6.0], dtype=torch.float64))
    slots, probabilities = selector.select(1000, generator())
    assert sorted(set(slots.tolist())) == [2, 3] and probabilities.tolist() == [0.5] * 1000
    assert selector.select_distinct(1, generator())[1].tolist() == [0.5]
    assert 400 < int((slots == 2).sum()) < 600
    selector.updated(torch.tensor([1, 3]), torch.tensor([9.0, 1.0], dtype=torch.float64))
    assert sorted(selector.select_distinct(2, generator())[0].tolist()) == [1, 2]
    selector.deleted(torch.tensor([1, 2]))
    slots, probabilities = selector.select(3, generator())
    assert slots.tolist() == [3] * 3 and probabilities.tolist() == [1.0] * 3
    with pytest.raises(UsageError, match="only 1"):
        selector.select_distinct(2, generator())


@pytest.mark.parametrize("make", ALL)
def test_it_goes_on_from_its_state(make):
    selector, again, model = opened(make), opened(make), Model()
    walk(selector, model, 60, 4)
    again.load_state_dict(selector.state_dict())
    other = Model()
    other.__dict__ = {name: value.copy() for name, value in model.__dict__.items()}
    walk(selector, model, 30, 5)
    walk(again, other, 30, 5)
    for draw in ("select", "select_distinct"):
        one, two = (getattr(each, draw)(4, generator(6)) for each in (selector, again))
        assert one[0].tolist() == two[0].tolist()
        assert torch.equal(one[1], two[1])


@pytest.mark.parametrize("make", ALL)
def test_nothing_is_left_after_clear(make):
    selector = opened(make)
    selector.inserted(torch.tensor([1, 2]), torch.ones(2, dtype=torch.float64))
    selector.clear()
    selector.inserted(torch.tensor([5]), torch.ones(1, dtype=torch.float64))
    assert selector.select(3, generator())[0].tolist() == [5] * 3


def test_selectors_have_names():
    assert isinstance(make_selector("prioritized", 0.6), Prioritized)
    assert make_selector("top_k", 3).k == 3
    with pytest.raises(UsageError, match="did you mean 'uniform'"):
        make_selector("unifrom")
    with pytest.raises(UsageError, match="top_k"):
        make_selector("top_k")
    with pytest.raises(UsageError, match="k must be 1"):
        make_selector("top_k", 0)
    with pytest.raises(UsageError, match="exponent"):
        make_selector("prioritized", -1)


@pytest.mark.parametrize("turns", range(3, 12))
def test_an_order_is_kept_however_often_its_list_was_full(turns):
    fifo, there = Fifo(), list[int]()
    fifo.open(8)

    def insert(new):
        fifo.inserted(torch.tensor(new), torch.ones(len(new), dtype=torch.float64))
        there.extend(new)

    def delete(gone):
        fifo.deleted(gone)
        for slot in gone.tolist():
            there.remove(slot)

    insert([0, 1, 2, 3, 4])
    for _ in range(turns):  # the list has 16 places
        delete(fifo.select_distinct(2, torch.Generator())[0])
        insert([slot for slot in range(8) if slot not in there][:2])
    delete(torch.tensor(there[1:2]))  # the first gap: places matter now
    assert fifo.state_dict()["slots"].tolist() == there
    insert([slot for slot in range(8) if slot not in there])
    assert fifo.state_dict()["slots"].tolist() == there


def test_a_gap_that_has_passed_the_front_costs_no_more():
    fifo = Fifo()
    fifo.open(8)
    fifo.inserted(torch.arange(6), torch.ones(6, dtype=torch.float64))
    fifo.deleted(torch.tensor([1]))
    for expected in ([0, 2], [3, 4]):
        chosen, _ = fifo.select_distinct(2, torch.Generator())
        assert chosen.tolist() == expected
        fifo.deleted(chosen)
    assert fifo._count == fifo._end - fifo._first == 1  # as if there had been none
