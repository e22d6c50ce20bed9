import json

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "learner.gama=0.9,0.99"), "gama"),
        (("--set", "learner.gamma=0.9,7"), "learner.gamma"),
        (("--task", "antt"), "antt"),
        (("--seeds", "3-1"), "--seeds 3-1"),
        (("--command", "true", "--task", "ant"), "--task: is for trainings of ours"),
        (("--command", "'"), "--command: No closing quotation"),
        (("--resume", "here", "--seeds", "1"), "--seeds: a resumed sweep has its own"),
        (("--resume", "nowhere"), "no folder of a sweep"),
    ],
)
def test_mistakes_are_exit_2_before_anything_is_made(command_line, tmp_path, arguments, message):
    code, out, err = command_line("sweep", *arguments)
    assert (code, out) == (2, "") and message in err and not (tmp_path / "runs").exists()


def test_programs_are_packed_and_the_sweep_is_resumed(command_line, tmp_path):
    given = ("sweep", "--command", "sh -c 'exit {seed}'", "--seeds", "0-1", "--at-once", 2, "--sweep-dir", "sweep")
    code, out, err = command_line(*given)
    assert (
        code == 0
        and "1 of 2, 1 failed" in out
        and "1-seed1: FAILED with exit code 1 (it has printed nothing): see" in err
    )
    code, _, err = command_line(*given)
    assert code == 2 and "go on with --resume sweep" in err
    (tmp_path / "sweep" / "ended" / "0-seed0.json").unlink()
    code, out, err = command_line("sweep", "--resume", "sweep", "--format", "json")
    assert code == 0 and "0-seed0: done (2 of 2)" in err
    (line,) = json.loads(out)["results"]
    assert (line["done"], line["failed"], line["median"]) == (1, 1, None)
