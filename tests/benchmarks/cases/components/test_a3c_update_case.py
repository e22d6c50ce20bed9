import pytest
import torch

from gmi_drl.algo.a3c import A3C
from gmi_drl.benchmarks.cases.components import a3c_update
from gmi_drl.benchmarks.cases.components.a3c_by_autograd import A3CByAutograd


def test_gradients_by_hand_teach_what_autograd_does_bit_for_bit(monkeypatch):
    monkeypatch.setattr(a3c_update, "NUM_ENV", 64)
    (ours, batch), (theirs, same) = map(a3c_update.learner_and_batch, (A3C, A3CByAutograd))
    before = ours.flat.vector.clone()
    for _ in range(3):
        ours.update(batch)
        theirs.update(same)
    assert torch.equal(ours.flat.vector, theirs.flat.vector) and not torch.equal(ours.flat.vector, before)
    assert ours.metrics() == pytest.approx(theirs.metrics(), rel=1e-5)


@pytest.mark.parametrize("case", a3c_update.CASES, ids=lambda case: case.name)
def test_both_sides_are_timed(case, monkeypatch):
    monkeypatch.setattr(a3c_update, "NUM_ENV", 16)
    with case.open(True) as sides:
        assert all(side().value > 0 for side in sides.values())
