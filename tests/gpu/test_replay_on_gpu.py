from dataclasses import replace

import pytest
import torch

from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.selectors import Prioritized
from gmi_drl.replay.storage import make_storage
from tests.replay.signatures import MIXED, mixed_steps
from tests.replay.test_ring import GAMMA, STEP, STEPS, History, N
from tests.replay.test_stacks import Worlds, assert_drawn_as_seen
from tests.replay.test_stacks import made as stacked

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")
SAMPLERS = pytest.mark.parametrize("sampler", [None, Prioritized(0.7)], ids=["uniform", "prioritized"])


def add(ring, history, device):
    """The next step of the environments, which are on a device."""
    fields, boundary, valid = history.step()
    if ring.is_twice:
        fields["next/obs"] = fields["obs"] + torch.tensor([1.0, 0.0])
    ring.add({name: value.to(device) for name, value in fields.items()}, boundary.to(device), valid.to(device))


@pytest.mark.parametrize(("placement", "source"), [("device", "cuda"), ("device", "cpu"), ("pinned", "cpu")])
@pytest.mark.parametrize("next_obs", ["once", "twice"])
@pytest.mark.parametrize("n_step", [1, 3])
@SAMPLERS
def test_just_the_valid_windows_are_drawn(placement, source, next_obs, n_step, sampler):
    options = {"update_size": 1} if placement == "device" else {}
    ring = Ring(
        STEP,
        N,
        STEPS,
        n_step=n_step,
        gamma=GAMMA,
        next_obs=next_obs,
        sampler=sampler,
        placement=placement,
        device=CUDA,
        **options,
    )
    history = History(n_step)
    for step in range(2 * STEPS + 5):
        add(ring, history, source)
        wanted = history.windows(n_step, is_twice=ring.is_twice)
        if step < STEPS - 2 or not wanted:
            continue
        batch = ring.sample(600)
        names = ("obs", "action", "reward", "discount", "next/obs")
        assert all(batch.fields[name].device.type == "cuda" for name in names)
        seen = set()
        for obs, action, reward, discount, following in zip(
            *(batch.fields[name].tolist() for name in names), strict=True
        ):
            t, e = int(obs[0]), int(obs[1])
            assert action == 10 * t + e and (reward, discount) == wanted[t, e][:2]
            if discount:
                assert following == [float(wanted[t, e][2]), float(e)]
            seen.add((t, e))
        assert seen == set(wanted)
    ring.close()


@pytest.mark.parametrize(("placement", "source"), [("device", "cuda"), ("device", "cpu"), ("pinned", "cpu")])
def test_every_stack_is_the_one_that_was_seen(placement, source):
    options = {"update_size": 1} if placement == "device" else {}
    ring, worlds = stacked("first", placement=placement, device=CUDA, **options), Worlds("first")
    for step in range(30):
        fields, ended, valid = worlds.step()
        ring.add({name: value.to(source) for name, value in fields.items()}, ended.to(source), valid.to(source))
        if step > 4:
            batch = ring.sample(24)
            fields = {name: value.cpu() for name, value in batch.fields.items()}
            assert_drawn_as_seen(ring, worlds, replace(batch, keys=batch.keys.cpu(), fields=fields), 1)
    ring.close()


@pytest.mark.parametrize("placement", ["device", "pinned"])
def test_what_is_written_is_gathered(placement):
    storage = make_storage(MIXED, 500, longest=4, placement=placement, device=CUDA)
    size = storage.blocks.block_steps
    for block in range(storage.blocks.count):
        storage.write(block * size, mixed_steps(size, block * size))
    storage.flush()
    first, wanted = torch.tensor([3, 400, 3, storage.steps - 1]), mixed_steps(storage.steps)
    gathered = storage.gather(first)
    for name, value in wanted.items():
        assert torch.equal(gathered.fields[name][:, 0].cpu(), value[first])
    stretches = storage.gather(torch.tensor([5, storage.steps - 2]), torch.tensor([4, 2]))
    assert stretches.fields["step"].tolist() == [[5, 6, 7, 8], [storage.steps - 2, storage.steps - 1, 0, 0]]
    storage.close()


@SAMPLERS
def test_a_step_a_draw_and_an_update_do_not_wait_for_the_device(sampler):
    signature = Signature([Field("obs", (27,)), Field("reward"), Field("terminated", (), torch.bool)])
    ring = Ring(signature, 64, 100, n_step=3, sampler=sampler, placement="device", device=CUDA)
    fields = {"obs": torch.rand(64, 27, device=CUDA), "reward": torch.rand(64, device=CUDA)}
    fields["terminated"] = ended = torch.zeros(64, dtype=torch.bool, device=CUDA)
    valid, batch = torch.ones_like(ended), None
    for step in range(120):
        torch.cuda.set_sync_debug_mode("error" if step > 10 else "default")  # memory is allocated before
        try:
            ring.add(fields, ended, valid)
            if step > 5:
                batch = ring.sample(256, out=batch)
                ring.update(batch.keys, batch.fields["reward"].abs())
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert ring.info()["samples"] == 114 * 256
