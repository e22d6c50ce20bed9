import pytest
import torch

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

FORM, R = RolloutForm(horizon=3, num_env=5, observation=vector(7), action=continuous(2), num_terms=1), 2


def test_every_kind_has_a_tensor_of_its_shape():
    batch = ExperienceBatch.empty(FORM, R, torch.device("cpu"))
    assert {*vars(batch)} == {kind.name for kind in FORM.kinds} | {"state"} and batch.state is None
    for kind in FORM.kinds:
        tensor = getattr(batch, kind.name)
        assert tensor.shape == (R, *kind.shape) and str(tensor.dtype) == f"torch.{kind.dtype}" and not tensor.any()


def test_kinds_lie_in_one_memory_where_the_form_says_and_do_not_overlap():
    memory = torch.zeros(FORM.offsets(R)[-1] + 64, dtype=torch.uint8)
    batch = ExperienceBatch.over(memory, FORM, R)
    for number, kind in enumerate(FORM.kinds):
        getattr(batch, kind.name).fill_(number + 1)
    for number, (kind, begin) in enumerate(zip(FORM.kinds, FORM.offsets(R), strict=False)):
        bytes_of_it = memory[begin : begin + R * kind.nbytes]
        assert (bytes_of_it.view(getattr(torch, kind.dtype)) == number + 1).all()
    assert not memory[FORM.offsets(R)[-1] :].any()


def test_a_rollout_of_the_batch_is_one_piece_of_each_kind():
    """So a channel can bring it by one copy."""
    batch = ExperienceBatch.empty(FORM, R, torch.device("cpu"))
    assert all(getattr(batch, kind.name)[1].is_contiguous() for kind in FORM.kinds)


def test_memory_that_is_too_small_is_refused():
    with pytest.raises(RuntimeError, match="shape"):
        ExperienceBatch.over(torch.zeros(FORM.offsets(R)[-1] - 64, dtype=torch.uint8), FORM, R)
