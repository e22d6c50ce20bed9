import torch
from blocks import random_experience, transitions


def test_next_observations_are_exact_at_ends_and_at_the_last_step():
    block = random_experience(5, 4, seed=0)
    assert len(block.final_obs) > 2 and not block.valid.all()
    assert torch.equal(block.next_obs()[block.valid], torch.stack([one["next_obs"] for one in transitions(block)]))


def test_a_copy_on_the_host_is_its_own_and_contiguous():
    block = random_experience(5, 4, seed=0)
    copy = block.on_host()
    assert not block.final_at.is_contiguous() and all(tensor.is_contiguous() for tensor in copy.tensors().values())
    before = block.obs.clone()
    block.obs.zero_()
    assert torch.equal(copy.obs, before) and (copy.steps, copy.num_env, copy.knows_final_obs) == (5, 4, True)
