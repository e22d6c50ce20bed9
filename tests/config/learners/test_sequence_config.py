"""The settings of the sequence policy, and of recorded episodes: what is refused before anything starts."""

from dataclasses import replace

import numpy as np
import pytest

from gmi_drl.config.learners import SACConfig, SequenceConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.replay import import_episodes
from gmi_drl.templates import TEMPLATES
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import Observation, Part, image

ANT = TASK_SPECS["ant"]


def layout_of(gmis):
    node = Node(name="n", cpu=Cpu(cores=gmis, memory_gib=8))
    return TEMPLATES.find("TCG_EX").lay_out(ANT, node, Cut(gmis, 4))


@pytest.mark.parametrize(
    ("config", "task", "words"),
    [
        (SequenceConfig(), replace(ANT, observation=image(3, 12, 12)), "sequence takes vectors"),
        (
            SequenceConfig(),
            replace(ANT, observation=Observation((Part("a", (3,)), Part("b", (2,), critic_alone=True)))),
            "sequence has no critic",
        ),
        (SequenceConfig(width=10, heads=4), ANT, "learner.width is 10, which 4 heads"),
        (SACConfig(replay=ReplaySettings(offline_share=0.3)), ANT, "no effect without learner.replay.data"),
    ],
)
def test_what_does_not_go_together_is_refused(config, task, words):
    (mistake,) = config.check(task, None)
    assert words in mistake
    assert SequenceConfig().check(ANT, None) == []


def test_folders_that_cannot_be_learnt_from_are_named(tmp_path):
    (mistake,) = SequenceConfig().mistakes_in(layout_of(1))
    assert "--set learner.data=FOLDER" in mistake
    assert "is not there: `gmi-drl replay import" in mistakes(tmp_path / "none", 1)
    assert "is no folder that `gmi-drl replay import` wrote" in mistakes(tmp_path, 1)
    (tmp_path / "replay.json").write_text('{"facts": {"kind": "table", "episodes": 3}}')
    assert "is a checkpoint of replay" in mistakes(tmp_path, 1)
    episode = {"obs": np.zeros((2, 60)), "action": np.zeros((2, 8)), "reward": np.zeros(2)}
    import_episodes([episode] * 2, tmp_path / "a.replay")
    assert mistakes(tmp_path / "a.replay", 2) == ""
    assert "has 2 episodes, 3 GMIs need one each" in mistakes(tmp_path / "a.replay", 3)


def mistakes(folder, gmis):
    """Of both learners that read one, by the part behind the setting's name."""
    sequence = SequenceConfig(data=str(folder)).mistakes_in(layout_of(gmis))
    ring = SACConfig(replay=ReplaySettings(data=str(folder))).mistakes_in(layout_of(gmis))
    without = [[line.partition(": ")[2] for line in of if "data: " in line] for of in (sequence, ring)]
    assert without[0] == without[1]
    return "".join(without[0])


def test_memory_grows_with_the_context_and_the_environments():
    small = SequenceConfig()
    assert small.bucket_bytes(ANT) < small.memory_bytes(ANT, 1) < small.memory_bytes(ANT, 100)
    assert SequenceConfig(context=20).memory_bytes(ANT, 1) > small.memory_bytes(ANT, 1)
    assert small.minibatches == small.updates and small.epochs == 1 and small.hidden == (64, 64)
