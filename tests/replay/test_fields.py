import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.rows import Rows
from tests.replay.signatures import MIXED, mixed_steps


def test_offsets_are_aligned_and_rows_whole_words():
    assert MIXED.offsets == {"obs": 0, "done": 12, "action": 14, "step": 24, "image": 0}
    assert (MIXED.row_bytes("step"), MIXED.row_bytes("image"), MIXED.step_bytes) == (32, 16, 48)


def test_it_comes_back_from_json():
    again = Signature.from_json(MIXED.to_json())
    assert again.fields == MIXED.fields
    assert again.to_json() == MIXED.to_json()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"fields": [["a", [1], "foo", "c"]], "structure": null}', '{"fields": [1], "structure": 0}'],
)
def test_other_json_is_refused(text):
    with pytest.raises(UsageError, match="not a signature"):
        Signature.from_json(text)


def test_differences_name_both_sides():
    other = Signature((Field("obs", (4,)), Field("done"), Field("extra")))
    text = MIXED.difference(other)
    assert "obs is float32[4] in step, not float32[3] in step" in text
    assert "done is float32[] in step, not bool[] in step" in text
    assert "image is missing" in text
    assert "extra is unknown" in text
    assert MIXED.difference(Signature(MIXED.fields)) is None
    assert "order" in MIXED.difference(Signature(MIXED.fields[::-1]))


def test_steps_are_checked_with_all_mistakes_at_once():
    steps = mixed_steps(4)
    MIXED.check(steps)
    MIXED.check(steps, (4,))
    wrong = steps | {"obs": steps["obs"].double(), "done": steps["done"][:2], "more": steps["step"]}
    del wrong["step"]
    with pytest.raises(UsageError) as caught:
        MIXED.check(wrong, (4,))
    for part in (
        "obs is float64[4, 3], not float32[4, 3]",
        "done is bool[2], not bool[4]",
        "step is missing",
        "more is unknown",
    ):
        assert part in str(caught.value)


def test_wrong_signatures_are_refused():
    with pytest.raises(UsageError, match="1 field"):
        Signature(())
    with pytest.raises(UsageError, match="twice: a"):
        Signature((Field("a"), Field("a")))
    with pytest.raises(UsageError, match="without a number"):
        Signature((Field("a", (0,)),))


def test_rows_are_a_multiple_of_their_largest_number():
    signature = Signature((Field("wide", (), torch.complex128), Field("small")))
    assert signature.row_bytes("step") == 32
    rows = Rows.empty(signature, (3,))
    rows.fields["wide"].copy_(torch.tensor([1j, 2j, 3j]))
    rows.fields["small"].fill_(5.0)
    assert rows.fields["wide"].tolist() == [1j, 2j, 3j]
