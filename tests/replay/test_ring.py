"""Every window of a small ring, against windows that are enumerated from all steps ever made."""

import random

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize, ReplayTimeoutError, SampleToInsertRatio
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.selectors import Fifo, Prioritized

STEP = Signature(
    (Field("obs", (2,)), Field("reward"), Field("terminated", (), torch.bool), Field("action", (), torch.int64))
)
N, STEPS, GAMMA = 3, 12, 0.5


class History:
    """Random steps; the observation at step t of environment e is (t, e), also of a new episode."""

    def __init__(self, seed, ends=0.15, invalid=0.1):
        self.chance, self.ends, self.invalid, self.steps = random.Random(seed), ends, invalid, []

    def step(self):
        """The next step's arguments for `Ring.add`."""
        t = len(self.steps)
        rows = []
        for _ in range(N):
            ended = self.chance.random() < self.ends
            is_terminated = ended and self.chance.random() < 0.5
            rows.append((float(self.chance.randint(-4, 4)), ended, is_terminated, self.chance.random() >= self.invalid))
        self.steps.append(rows)
        reward, ended, terminated, valid = zip(*rows, strict=True)
        obs = torch.tensor([[float(t), float(e)] for e in range(N)])
        fields = {
            "obs": obs,
            "reward": torch.tensor(reward),
            "terminated": torch.tensor(terminated),
            "action": torch.arange(N) + 10 * t,
        }
        return fields, torch.tensor(ended), torch.tensor(valid)

    def windows(self, n_step, *, is_twice):
        """`{(t, e): (reward, discount, step after)}` of all windows that may be drawn."""
        found = {}
        now = len(self.steps)
        for t in range(max(0, now - STEPS), now - n_step + is_twice):
            for e in range(N):
                if window := self._window(t, e, n_step, is_twice):
                    found[t, e] = window
        return found

    def _window(self, t, e, n_step, is_twice):
        total = 0.0
        for i in range(n_step):
            reward, ended, terminated, valid = self.steps[t + i][e]
            if not valid:
                return None
            total += GAMMA**i * reward
            if terminated:
                return total, 0.0, t + i + 1
            if ended:
                return (total, GAMMA ** (i + 1), t + i + 1) if is_twice else None
        return total, GAMMA**n_step, t + n_step


def made(n_step, next_obs="once", **options):
    return Ring(STEP, N, STEPS, n_step=n_step, gamma=GAMMA, next_obs=next_obs, **options)


def add(ring, history):
    fields, boundary, valid = history.step()
    if ring.is_twice:
        fields["next/obs"] = fields["obs"] + torch.tensor([1.0, 0.0])
    ring.add(fields, boundary, valid)


@pytest.mark.parametrize("next_obs", ["once", "twice"])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("sampler", [None, Prioritized(0.7)], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("placement", ["cpu", "shared", "device"])
def test_just_the_valid_windows_are_drawn(next_obs, n_step, sampler, placement):
    options = {"update_size": 1} if placement == "device" else {}
    ring, history = made(n_step, next_obs, sampler=sampler, placement=placement, **options), History(n_step)
    for step in range(2 * STEPS + 5):
        add(ring, history)
        wanted = history.windows(n_step, is_twice=ring.is_twice)
        if step < STEPS - 2 or not wanted:
            continue
        batch = ring.sample(600)
        seen = set()
        for obs, action, reward, discount, following in zip(
            *(batch.fields[name].tolist() for name in ("obs", "action", "reward", "discount", "next/obs")), strict=True
        ):
            t, e = int(obs[0]), int(obs[1])
            assert action == 10 * t + e
            want = wanted[t, e]
            assert (reward, discount) == want[:2]
            if discount:
                assert following == [float(want[2]), float(e)]
            seen.add((t, e))
        assert seen == set(wanted)


@pytest.mark.parametrize("sampler", [None, Prioritized(1.0)], ids=["uniform", "prioritized"])
def test_each_window_is_as_likely(sampler):
    ring, history = made(2, sampler=sampler), History(5)
    for _ in range(2 * STEPS):
        add(ring, history)
    wanted = history.windows(2, is_twice=False)
    keys, counts = ring.sample(20_000).keys.unique(return_counts=True)
    assert len(keys) == len(wanted)
    share = 20_000 / len(wanted)
    assert float(((counts - share) ** 2 / share).sum()) / (len(wanted) - 1) < 3


def test_priorities_decide_and_outdated_keys_are_ignored():
    ring, history = made(1, sampler=Prioritized(0.5)), History(6, ends=0, invalid=0)
    for _ in range(STEPS):
        add(ring, history)
    keys = torch.arange(ring.first * N, ring.end * N)
    ring.update(keys, torch.where(keys == 7, 16.0, torch.where(keys == 9, 4.0, 0.0)))
    batch = ring.sample(3000)
    assert set(batch.keys.tolist()) == {7, 9}
    assert batch.probabilities[batch.keys == 7].unique().tolist() == pytest.approx([2 / 3])
    assert 1850 < int((batch.keys == 7).sum()) < 2150
    for _ in range(3):
        add(ring, history)
    ring.update(torch.tensor([7, 9]), torch.tensor([1e9, 1e9]))  # 7 was written over
    assert ring.sample(100).keys.unique().tolist() == [9]
    with pytest.raises(UsageError, match="0 or more"):
        ring.update(torch.tensor([9]), torch.tensor([-1.0]))


def test_steps_that_wait_for_their_copy_are_not_drawn():
    ring, history = made(1, placement="device", update_size=2 * N + 1), History(7, ends=0, invalid=0)
    for _ in range(4):
        add(ring, history)
    assert ring.storage.pending == 5
    assert ring.sample(200).fields["obs"][:, 0].max() == 0
    for _ in range(4 * STEPS):
        add(ring, history)
        oldest = ring.sample(200).fields["obs"][:, 0].min()
        assert oldest >= len(history.steps) - STEPS


def test_rows_are_written_over_on_demand():
    ring, history = made(1), History(8)
    for _ in range(5):
        add(ring, history)
    first = ring.sample(4)
    second = ring.sample(4, out=first)
    assert second.rows[0] is first.rows[0]
    assert first.fields["obs"].data_ptr() == second.fields["obs"].data_ptr()


def test_a_full_ring_counts_what_is_there():
    ring, history = made(1), History(8)
    for steps in range(1, STEPS + 5):
        add(ring, history)
        assert ring.info()["items"] == N * min(steps, STEPS) and ring.info()["inserts"] == N * steps


def test_weights_are_of_the_windows_that_can_be_drawn():
    ring, history = made(1, sampler=Prioritized(1.0)), History(9)
    for _ in range(9):
        add(ring, history)
    batch = ring.sample(20)
    assert batch.weights(0.4).tolist() == [1.0] * 20


def test_what_is_not_there_is_not_waited_for():
    ring = made(2, limiter=MinSize(9))
    with pytest.raises(ReplayTimeoutError, match="begin at 9 items, 9 are missing"):
        ring.sample(1)
    broken, history = made(1), History(1, invalid=1.0)
    for _ in range(4):
        add(broken, history)
    with pytest.raises(UsageError, match="none or few are valid"):
        broken.sample(1)


def test_it_goes_on_from_its_state():
    for sampler in (None, Prioritized(0.6)):
        ring, again, history = made(2, sampler=sampler), made(2, sampler=sampler), History(3)
        for _ in range(STEPS + 4):
            add(ring, history)
        ring.sample(5)
        with ring.snapshot() as state:
            again.load_state_dict(state)
        one, two = ring.sample(50), again.sample(50)
        assert torch.equal(one.keys, two.keys)
        assert torch.equal(one.fields["next/obs"], two.fields["next/obs"])
        assert again.info()["samples"] == 55


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"n_step": STEPS}, "windows of 12 steps .* 12 steps"),
        ({"n_step": 0}, "windows of 1 step"),
        ({"observations": ("picture",)}, "picture"),
        ({"limiter": MinSize(99)}, "min_size 99 is above 12 steps x 3"),
        ({"update_size": 4}, "goes with the placement 'device'"),
        ({"update_size": 99, "placement": "device"}, "update_size is 99"),
        ({"limiter": SampleToInsertRatio(1.0, 4, 4.0)}, "no insert wait, but its limiter allows a difference of 8"),
        ({"sampler": Fifo()}, "not by Fifo"),
        ({"next_obs": "twise"}, "next_obs is 'once' or 'twice', not 'twise'"),
        ({"next_obs": "twice", "stacks": {"obs": "first"}}, "stored once: next_obs must be 'once'"),
        ({"stacks": {"picture": "first"}}, "stacks picture: the observations are obs"),
        ({"stacks": {"obs": "zero"}}, "stacks begin with 'first' or 'zeros', not 'zero'"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, told):
    with pytest.raises(UsageError, match=told):
        Ring(STEP, N, STEPS, **arguments)
    with pytest.raises(UsageError, match="reward float32"):
        Ring(Signature((Field("obs"),)), N, STEPS)


def test_steps_that_reach_a_device_together_are_all_drawn():
    ring, history = made(1, sampler=Prioritized(1.0), placement="device", update_size=2 * N + 1), History(7, 0, 0)
    for _ in range(STEPS):
        add(ring, history)
    with ring.snapshot() as state:
        assert ring.sample(400).keys.unique().tolist() == list(range(ring.end * N))
        again = made(1, sampler=Prioritized(1.0), placement="device", update_size=2 * N + 1)
        again.load_state_dict(state)
    for _ in range(4):
        add(ring, history)
    assert ring.sample(400).keys.unique().tolist() == list(range(ring.first * N, ring.end * N))
    assert again.sample(400).keys.unique().tolist() == list(range(again.end * N))


def test_every_step_is_checked():
    ring, history = made(1), History(2)
    add(ring, history)
    for change in ({"obs": torch.zeros(1, 2)}, {"obs": torch.zeros(N, 2, dtype=torch.float64)}, {"action": None}):
        fields, boundary, valid = history.step()
        fields = {name: value for name, value in (fields | change).items() if value is not None}
        with pytest.raises(UsageError, match=r"obs is|action is missing"):
            ring.add(fields, boundary, valid)
    assert ring.written == 1


@pytest.mark.parametrize(
    ("boundary", "told"),
    [(torch.zeros(1, dtype=torch.bool), r"boundary is bool \[1\]"), (torch.zeros(N), r"boundary is float32 \[3\]")],
)
def test_every_outcome_is_checked(boundary, told):
    ring, (fields, _, valid) = made(1), History(2).step()
    with pytest.raises(UsageError, match=rf"3 environments needs bools \[3\]: terminated is missing, {told}, valid is"):
        ring.add({name: value for name, value in fields.items() if name != "terminated"}, boundary, valid)
    assert ring.written == 0


def test_a_ring_of_stacks_alone_is_refused():
    kinds = Signature((Field("obs", (4, 2)), Field("reward"), Field("terminated", (), torch.bool)))
    with pytest.raises(UsageError, match="a ring needs a field besides obs, reward, terminated"):
        Ring(kinds, N, STEPS, stacks={"obs": "first"})


def test_a_ring_that_waits_for_copies_says_so():
    ring, history = made(1, placement="device", update_size=4 * N), History(2)
    add(ring, history)
    with pytest.raises(ReplayTimeoutError, match="1 steps of 3 environments were added, 3 rows wait to be copied"):
        ring.sample(1)


def test_new_windows_have_the_highest_priority_so_far():
    ring, history = made(1, sampler=Prioritized(1.0)), History(6, ends=0, invalid=0)
    for _ in range(3):
        add(ring, history)
    assert ring.mass() == 2 * N
    ring.update(torch.tensor([0, 1]), torch.tensor([0.5, 4.0], dtype=torch.bfloat16))  # of a loss in few bits
    assert ring.mass() == 2 * N - 2 + 4.5
    add(ring, history)
    assert ring.mass() == 2 * N - 2 + 4.5 + N * 4.0


def test_windows_that_are_not_there_or_not_valid_get_no_priority():
    ring, history = made(1, sampler=Prioritized(1.0)), History(6, ends=0, invalid=1.0)
    for _ in range(3):
        add(ring, history)
    assert ring.mass() == 0
    ring.update(torch.tensor([0, 2 * N, 5 * N]), torch.ones(3))
    assert ring.mass() == 0
    ring, history = made(1, sampler=Prioritized(1.0)), History(6, ends=0, invalid=0)
    for _ in range(3):
        add(ring, history)
    ring.update(torch.tensor([STEPS * N, STEPS * N + 1]), torch.tensor([7.0, 7.0]))  # the rows of keys 0 and 1
    assert ring.mass() == 2 * N


def test_a_batch_stays_as_it_is_when_another_is_drawn():
    ring, history = made(1), History(6, ends=0, invalid=0)
    for _ in range(STEPS):
        add(ring, history)
    first = ring.sample(50)
    before = {name: field.clone() for name, field in first.fields.items()}
    ring.sample(50)
    assert all(torch.equal(field, before[name]) for name, field in first.fields.items())
