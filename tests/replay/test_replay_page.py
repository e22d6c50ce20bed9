"""The code in docs/internals/replay.md runs."""

import textwrap
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "replay.md"


def test_the_example_runs():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("    ")]
    given = {
        "steps": {"obs": torch.rand(1000, 27), "action": torch.rand(1000), "reward": torch.rand(1000)},
        "td_errors": torch.rand(256),
        "beta": 0.4,
    }
    exec(textwrap.dedent("\n".join(lines)), given)
    batch = given["batch"]
    assert batch.fields["obs"].shape == (256, 1, 27)
    assert given["table"].info()["samples"] == 256
    assert torch.equal(given["table"].sample(4).weights(0.0), torch.ones(4))
