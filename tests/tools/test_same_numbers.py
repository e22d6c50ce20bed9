import json
import subprocess

import pytest

from tools import checkout, same_numbers

SMALL = {"--task": "ball_balance", "--seed": 0, "--gmis-per-gpu": 1, "--algo": "ppo", "--num-env": 4, "--iterations": 1}


@pytest.fixture
def one_pair(tmp_path, monkeypatch):
    """Of the many trainings one pair, and a page that is thrown away."""
    monkeypatch.setattr(same_numbers, "short_trainings", list)
    monkeypatch.setattr(same_numbers, "LIKE_MAKE_TRAIN", SMALL)
    monkeypatch.setattr(same_numbers, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr("sys.argv", ["same_numbers", str(checkout.ROOT)])
    return tmp_path / "page.md"


def test_this_checkout_has_its_own_numbers(one_pair):
    assert same_numbers.main() == 0
    (row,) = [line for line in one_pair.read_text().splitlines() if line.startswith("| ball_balance")]
    _, _, *settings, old, new, verdict, _ = (cell.strip() for cell in row.split("|"))
    assert (settings, verdict) == (["0", "1", "ppo", "4", "1"], "same") and old == new and len(old) == 12


def test_numbers_that_differ_are_told(one_pair, monkeypatch):
    digests = iter(["a" * 16, "b" * 16])
    monkeypatch.setattr(same_numbers, "train", lambda *arguments: None)
    monkeypatch.setattr(same_numbers, "learner_digest", lambda folder: next(digests))
    assert same_numbers.main() == 1 and "| aaaaaaaaaaaa | bbbbbbbbbbbb | differs |" in one_pair.read_text()


def test_every_training_is_another_one():
    trainings = [*same_numbers.short_trainings(), same_numbers.LIKE_MAKE_TRAIN]
    assert len({tuple(options.values()) for options in trainings}) == len(trainings) == 3 * 2 * 2 * 2 + 1
    assert len({tuple(options) for options in trainings}) == 1, "the page has one order of columns"


def test_the_digest_is_that_of_the_last_checkpoint(tmp_path):
    for iteration in (2, 10):
        folder = tmp_path / "checkpoints" / f"{iteration:06}"
        folder.mkdir(parents=True)
        (folder / "checkpoint.json").write_text(json.dumps({"learner": str(iteration)}))
    assert checkout.learner_digest(tmp_path) == "10"


def test_a_training_that_fails_tells_its_last_words(tmp_path):
    with pytest.raises(RuntimeError, match="there is no task 'ent'"):
        checkout.train(checkout.ROOT, {"--task": "ent"}, tmp_path / "run", cores=[0])


def test_a_command_runs_the_package_of_its_checkout_wherever_it_is_started(tmp_path):
    """Also in the root of another one, whose package the working directory would bring in."""
    (tmp_path / "gmi_drl" / "cli").mkdir(parents=True)
    (tmp_path / "gmi_drl" / "__init__.py").touch()
    (tmp_path / "gmi_drl" / "cli" / "__init__.py").write_text("def main():\n    print('the other one')\n")
    asked = checkout.command(tmp_path, "bench")
    ended = subprocess.run(**asked, cwd=checkout.ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "the other one\n"
