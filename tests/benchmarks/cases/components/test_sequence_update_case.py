import pytest
import torch

from gmi_drl.algo.sequence import Contexts, Sequence
from gmi_drl.algo.sequence_agent import make_sequence_agent
from gmi_drl.benchmarks.cases.components import sequence_update
from gmi_drl.benchmarks.cases.components.sequence_ends import SPEC, episodes_of
from gmi_drl.benchmarks.cases.components.sequence_loop import Loop
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.roles.sequence.draws import scaling_of

NAMES = {
    "read.weight": "self_attn.in_proj_weight",
    "read.bias": "self_attn.in_proj_bias",
    "write": "self_attn.out_proj",
    "before_attention": "norm1",
    "before_layers": "norm2",
    "wider": "linear1",
    "narrower": "linear2",
}
"""Of a block of ours, those of torch's."""


def test_small_sizes_are_measured(monkeypatch):
    for name, size in {"UPDATES": 2, "EPISODES": 3, "STEPS": 12}.items():
        monkeypatch.setattr(sequence_update, f"QUICK_{name}", size)
    (case,) = sequence_update.CASES
    with case.open(True) as sides:
        assert list(sides) == ["gmi-drl", "torch"]
        assert all(side().details["tokens_per_second"] > 0 for side in sides.values())


def test_both_sides_have_the_same_network_loss_and_update(tmp_path):
    import_episodes(episodes_of(3, 12), tmp_path / "made.replay")
    episodes, config = EpisodeSet(tmp_path / "made.replay"), SequenceConfig(batch=4)
    agent = make_sequence_agent(SPEC, config, torch.device("cpu"), seed=0)
    agent.normaliser.load(scaling_of(episodes, None))
    loop = Loop(episodes, config, seed=1)
    weights = {}
    for name, value in agent.policy.state_dict().items():
        for ours, theirs in NAMES.items():
            name = name.replace(f".{ours}", f".{theirs}") if name.startswith("blocks.") else name
        weights[name] = value.clone()
    loop.decoder.load_state_dict(weights)
    rows = torch.arange(config.context) + torch.tensor([0, 2])[:, None]
    to_go, obs, action = loop.to_go[rows], loop.obs[rows], loop.action[rows]
    contexts = Contexts(to_go, obs, action, torch.ones_like(to_go, dtype=torch.bool))
    ours, (loss, _) = Sequence(agent, config), loop.losses(to_go, obs, action)
    ours.update(contexts)
    assert ours.metrics()["action_loss"] == pytest.approx(float(loss), rel=1e-4)
    before = loop.decoder.out.weight.clone()
    loop.update()
    assert not torch.equal(before, loop.decoder.out.weight)
