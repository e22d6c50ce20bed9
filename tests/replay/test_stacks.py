"""Stacks that a ring makes again, against those that were seen, of every step of small rings."""

import random

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.selectors import Prioritized

N, STEPS, K = 2, 9, 3
PICTURE = (2, 2)
KINDS = (
    Field("obs", (K, *PICTURE), torch.uint8),
    Field("reward"),
    Field("terminated", (), torch.bool),
    Field("action", (1,)),
)


class Worlds:
    """Worlds whose pictures are all different. Some episodes end without a new first picture, as lives of games do."""

    def __init__(self, padding, seed=0):
        self.chance, self.padding, self.seen, self.reset = random.Random(seed), padding, [], [True] * N

    def step(self):
        """The next arguments of `Ring.add`, with some step that is none."""
        t, stacks, ended = len(self.seen), [], []
        for world in range(N):
            new = torch.full((1, *PICTURE), 1 + (t * N + world) % 250, dtype=torch.uint8)
            before = new.repeat(K - 1, 1, 1) if self.padding == "first" else torch.zeros(K - 1, *PICTURE).to(new.dtype)
            stacks.append(torch.cat((before if self.reset[world] else self.seen[-1][world][1:], new)))
            ended.append(self.chance.random() < 0.25)
            self.reset[world] = self.chance.random() < (0.8 if ended[-1] else 0.05)
        self.seen.append(torch.stack(stacks))
        step = {"obs": self.seen[-1], "reward": torch.full((N,), float(t)), "action": torch.zeros(N, 1)}
        step["terminated"] = torch.tensor(ended)
        return step, step["terminated"], torch.tensor([self.chance.random() < 0.9 for _ in range(N)])


def made(padding, **more):
    return Ring(Signature(KINDS), N, STEPS, gamma=1.0, stacks={"obs": padding}, **more)


def assert_drawn_as_seen(ring, worlds, batch, n_step):
    for key, now, after, discount in zip(
        batch.keys.tolist(), batch.fields["obs"], batch.fields["next/obs"], batch.fields["discount"], strict=True
    ):
        t, world = divmod(key, N)
        assert torch.equal(now, worlds.seen[t][world]), (t, world)
        if discount > 0:
            assert torch.equal(after, worlds.seen[t + n_step][world]), (t, world)


@pytest.mark.parametrize("padding", ["first", "zeros"])
@pytest.mark.parametrize("n_step", [1, 2])
@pytest.mark.parametrize("sampler", [None, Prioritized(0.6)], ids=str)
def test_every_stack_is_the_one_that_was_seen(padding, n_step, sampler):
    ring, worlds, batch, drawn = made(padding, n_step=n_step, sampler=sampler), Worlds(padding), None, set()
    for t in range(4 * STEPS):
        ring.add(*worlds.step())
        if t > n_step + 3:
            batch = ring.sample(24, out=batch)
            assert_drawn_as_seen(ring, worlds, batch, n_step)
            drawn |= set(batch.keys.tolist())
            assert min(batch.keys.tolist()) >= N * max(0, t + 1 - STEPS + K - 1), "its oldest picture was written over"
    assert len(drawn) > 2 * STEPS * N


def test_the_oldest_step_with_all_pictures_is_drawn():
    ring, worlds = made("first"), Worlds("first")
    for _ in range(2 * STEPS):
        step, ended, valid = worlds.step()
        ring.add(step | {"terminated": ended & False}, ended & False, valid | True)
    steps = {key // N for key in ring.sample(400).keys.tolist()}
    assert steps == set(range(STEPS + K - 1, 2 * STEPS - 1))


def test_it_goes_on_from_a_snapshot():
    ring, again, worlds = made("first"), made("first"), Worlds("first")
    for _ in range(STEPS + 2):
        ring.add(*worlds.step())
    with ring.snapshot() as state:
        again.load_state_dict(state)
    for _ in range(STEPS):
        arguments = worlds.step()
        ring.add(*arguments)
        again.add(*arguments)
        batches = ring.sample(16), again.sample(16)
        assert torch.equal(batches[0].fields["obs"], batches[1].fields["obs"])
        assert_drawn_as_seen(again, worlds, batches[1], 1)


@pytest.mark.parametrize("sampler", [None, Prioritized(0.6)], ids=str)
def test_steps_of_other_rings_are_drawn_where_their_pictures_are_there(sampler):
    ring, other, worlds = made("first"), made("first", sampler=sampler), Worlds("first")
    for _ in range(STEPS - 1):
        step, ended, valid = worlds.step()
        ring.add(step | {"terminated": ended & False}, ended & False, valid | True)
    words = {name: rows[: (STEPS - 1) * N].view(STEPS - 1, N, -1) for name, rows in ring.storage.rows.words.items()}
    other.begin_with(words)
    batch = other.sample(200)
    assert_drawn_as_seen(other, worlds, batch, 1)
    assert {key // N for key in batch.keys.tolist()} == set(range(K - 1, STEPS - 2))


@pytest.mark.parametrize("padding", ["first", "zeros"])
def test_no_stack_goes_on_from_steps_of_other_rings(padding):
    """Black pictures, or zeros before the first, look as what a new ring has seen last."""
    ring, other, worlds = made(padding), made(padding), Worlds(padding)
    step, ended, valid = worlds.step()
    for _ in range(4):
        ring.add(step | {"terminated": ended & False}, ended & False, valid | True)
    words = {name: rows[: 4 * N].view(4, N, -1) for name, rows in ring.storage.rows.words.items()}
    other.begin_with(words)
    black = torch.zeros_like(step["obs"])
    if padding == "zeros":
        black[:, -1] = 7
    for count in range(2):
        other.add(step | {"obs": black}, ended & False, valid | True)
        assert other.stacks[0].age.tolist() == [0 if padding == "zeros" else count] * N


def test_stacks_are_compared_where_steps_come_from():
    """Meta stands for the host of a ring on a GPU."""
    stack, worlds = made("first").stacks[0], Worlds("first")
    stack.added(worlds.step()[0]["obs"])
    for name, value in stack.added(worlds.step()[0]["obs"].to("meta")).items():
        assert value.device.type == "meta", name


def test_a_step_that_is_refused_changes_no_stacks():
    ring, worlds = made("first"), Worlds("first")
    ring.add(*worlds.step())
    step, ended, valid = worlds.step()
    for wrong, told in (
        ({"picture": step["obs"]}, r"obs is missing; picture is unknown \(known: obs, reward"),
        ({"obs": step["obs"][:, 1:]}, r"obs is uint8\[2, 2, 2, 2\], not uint8\[2, 3, 2, 2\]"),
        ({"obs": step["obs"], "action": torch.zeros(N, 2)}, r"action is float32\[2, 2\]"),
    ):
        with pytest.raises(UsageError, match=told):
            ring.add({name: value for name, value in step.items() if name != "obs"} | wrong, ended, valid)
    ring.add(step, ended, valid)
    for _ in range(STEPS):
        ring.add(*worlds.step())
    assert_drawn_as_seen(ring, worlds, ring.sample(100), 1)


def test_a_picture_is_stored_once():
    kinds = Signature((Field("obs", (4, 10, 10), torch.uint8), *KINDS[1:]))
    rings = Ring(kinds, N, STEPS), Ring(kinds, N, STEPS, stacks={"obs": "first"})
    sizes = [ring.info()["storage"]["bytes"] / ring.storage.steps for ring in rings]
    assert sizes == [408 + 8, 104 + 8 + 8], "the observation with the action, and the outcome of 8 bytes"


def test_what_is_no_stack_is_refused():
    worlds = Worlds("zeros")
    with pytest.raises(UsageError, match="have not their first picture alone"):
        made("first").add(*worlds.step())
    with pytest.raises(UsageError, match="have not zeros before"):
        made("zeros").add(*Worlds("first").step())
    with pytest.raises(UsageError, match="stored once"):
        made("first", next_obs="twice")
    with pytest.raises(UsageError, match="7 steps with 3 pictures each do not fit into 9 steps"):
        made("first", n_step=7)
    flat = Signature((Field("obs", (3,)), *KINDS[1:]))
    with pytest.raises(UsageError, match="is no stack"):
        Ring(flat, N, STEPS, stacks={"obs": "first"})
