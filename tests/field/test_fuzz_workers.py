"""Bad frames at every end of workers, a few of each; and what counts against an end."""

import fuzz_workers
import pytest
from fuzz_ends import Seen

from gmi_drl.errors import GmiError


@pytest.mark.parametrize("name", fuzz_workers.ENDS)
def test_an_end_refuses_bad_frames_and_answers_a_client_that_is_right(name, monkeypatch):
    monkeypatch.setattr(fuzz_workers, "EACH", 20)
    result = fuzz_workers.fuzz(fuzz_workers.ENDS[name], 40, seed=5)
    assert not result.seen.crashes and not result.hangs and result.grown_descriptors <= 0


def test_an_error_that_is_not_ours_is_a_crash_and_no_answer_a_hang(capsys):
    def end(chance, count, seen):
        for error in (GmiError("GMI 3 sent 5 bytes"), ValueError("5"), ValueError("6")):
            seen.note(error)
        assert not count, "no answer"

    result = fuzz_workers.fuzz(end, 1, seed=0)
    assert result.seen.crashes == {"ValueError: N": 2} and result.seen.refused == {"GmiError: GMI N sent N bytes": 1}
    assert result.hangs == 1 and not result.is_right and "no answer" in capsys.readouterr().out
    assert fuzz_workers.fuzz(lambda chance, count, seen: None, 1, seed=0).is_right
    assert Seen().refused == {}
