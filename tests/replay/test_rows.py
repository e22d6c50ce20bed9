import pytest
import torch

from gmi_drl.replay.rows import Rows
from tests.replay.signatures import MIXED, mixed_steps


@pytest.mark.parametrize("lead", [(6,), (2, 3)])
def test_fields_are_views_of_the_rows(lead):
    rows, steps = Rows.empty(MIXED, lead), mixed_steps(6)
    for name, value in steps.items():
        rows.fields[name].copy_(value.view(*lead, *value.shape[1:]))
    copied = Rows(MIXED, {column: words.clone() for column, words in rows.words.items()})
    for name, value in steps.items():
        assert copied.fields[name].dtype == value.dtype
        assert torch.equal(copied.fields[name].reshape(value.shape), value)
    assert (copied.lead, copied.bytes) == (lead, 6 * 48)


def test_fields_of_a_slice_are_those_of_its_rows():
    rows = Rows.empty(MIXED, (6,))
    for name, value in mixed_steps(6).items():
        rows.fields[name].copy_(value)
    part = Rows(MIXED, {column: words[2:4] for column, words in rows.words.items()})
    assert part.fields["step"].tolist() == [2, 3]
    assert torch.equal(part.fields["obs"], rows.fields["obs"][2:4])


def test_some_columns_have_only_their_fields():
    assert list(Rows.empty(MIXED, (2,), columns=("image",)).fields) == ["image"]
