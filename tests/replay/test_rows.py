import pytest
import torch

from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.rows import JOINED, Rows
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


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["their type", "another type"])
@pytest.mark.parametrize("names", [("obs", "action", "reward"), ("obs", "reward")], ids=["all fields", "some"])
@pytest.mark.parametrize("count", [3, JOINED])
def test_what_is_written_is_there_and_nothing_else(names, kind, count):
    fields = [Field("obs", (3,)), Field("action"), Field("reward"), Field("flag", (), torch.uint8, "flags")]
    rows = Rows.empty(Signature(fields), (count + 2,))
    for words in rows.words.values():
        words.fill_(-1)
    before = {name: field.clone() for name, field in rows.fields.items()}
    steps = {"obs": torch.rand(3, count).T, "action": torch.rand(count), "reward": torch.rand(count, dtype=kind)}
    rows.write(1, {name: steps[name] for name in names})
    for name, field in rows.fields.items():
        if name in names:
            assert torch.equal(field[1:-1], steps[name].float())
            assert field[[0, -1]].isnan().all() and before[name].isnan().all()
        else:
            assert torch.equal(field.nan_to_num(7.0), before[name].nan_to_num(7.0))
