"""Windows of a ring of other GMIs' rollouts: each is within a rollout, and all there are can be drawn."""

import pytest
import torch
from roles.replay.rollouts_made import made

from gmi_drl.layout.experience import RolloutForm
from gmi_drl.replay import Field, Ring, Signature
from gmi_drl.roles.replay.rollouts import VERSION, add_rollouts
from gmi_drl.workload.spaces import continuous, vector

T, N, R = 4, 2, 3
GAMMA = 0.5
DONE = [(0, 1, 0), (1, 3, 1), (2, 0, 1), (2, 3, 0)]
TERMINATED = [(1, 3, 1), (2, 0, 1)]
BAD = [(0, 2, 1)]


def ring_of(next_obs, n_step, steps=40):
    fields = (Field("obs", (1,)), Field("action", (2,)), Field("reward"), Field("terminated", (), torch.bool), VERSION)
    return Ring(Signature(fields), R * N, steps, n_step=n_step, gamma=GAMMA, next_obs=next_obs)


def expected(batch, next_obs, n_step):
    """Every window: first observation -> (reward, discount, what follows or None if that does not matter)."""
    found = {}
    for r in range(R):
        for w in range(N):
            for t in range(T):
                reward, discount = 0.0, 1.0
                for reach in range(n_step):
                    at = (r, t + reach, w)
                    if t + reach == T:
                        break  # a window that the rollout's end cuts
                    if at in BAD:
                        reward = None
                        break
                    reward += discount * float(batch.reward[at])
                    discount *= GAMMA
                    if at in DONE:
                        break
                is_cut = t + reach == T
                if reward is None or (is_cut and next_obs == "once"):
                    continue
                last = (r, min(t + reach, T - 1), w)
                if last in DONE and last not in TERMINATED and next_obs == "once":
                    continue
                is_over = last in TERMINATED
                place = float(batch.obs[r, 0, w]) + last[1] + 1
                follows = None if is_over else (-place if last in DONE else place)
                found[float(batch.obs[r, t, w])] = (reward, 0.0 if is_over else discount, follows)
    return found


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("next_obs", ["once", "twice"])
def test_every_window_within_a_rollout_is_drawn_and_no_other(next_obs, n_step):
    form = RolloutForm(T, N, vector(1), continuous(2), next_obs=next_obs)
    ring, wanted, versions = ring_of(next_obs, n_step), {}, {}
    for update in range(3):  # the last windows of the newest rollouts are complete when others follow
        old = set(wanted)
        own = [2 * update, 2 * update + 1, 7]
        batch = made(form, own, done=DONE, terminated=TERMINATED, bad=BAD)
        add_rollouts(ring, batch)
        wanted |= expected(batch, next_obs, n_step)
        versions |= {float(obs): own[r] for r in range(R) for obs in batch.obs[r].flatten()}
        batch.obs.zero_()  # the room is given back
    drawn = ring.sample(3000)
    seen = set()
    for number, first in enumerate(drawn.fields["obs"][:, 0].tolist()):
        reward, discount, follows = wanted[first]
        assert drawn.fields["reward"][number] == pytest.approx(reward)
        assert drawn.fields["discount"][number] == discount
        assert drawn.fields[VERSION.name][number] == versions[first]
        if follows is not None:
            assert drawn.fields["next/obs"][number, 0] == follows
        seen.add(first)
    assert old <= seen <= set(wanted) and len(seen) > len(old)


@pytest.mark.parametrize(("next_obs", "rows"), [("once", T + 1), ("twice", T)])
def test_a_rollout_takes_a_row_more_where_what_follows_is_stored_once(next_obs, rows):
    ring = ring_of(next_obs, 1)
    add_rollouts(ring, made(RolloutForm(T, N, vector(1), continuous(2), next_obs=next_obs), [0] * R))
    assert ring.written == rows
