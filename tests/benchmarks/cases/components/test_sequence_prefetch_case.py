import torch

from gmi_drl.benchmarks.cases.components import sequence_prefetch
from gmi_drl.benchmarks.cases.components.sequence_ends import DrawsWhenNeeded, episodes_of
from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.roles.sequence.draws import Draws


def test_small_sizes_are_measured():
    (case,) = sequence_prefetch.CASES
    with case.open(True) as sides:
        samples = [side() for side in sides.values()]
    assert all(0 <= sample.value <= 1 and sample.details["update_s"] > 0 for sample in samples)


def test_both_sides_learn_from_the_same_batches(tmp_path):
    import_episodes(episodes_of(3, 9), tmp_path / "made.replay")
    episodes = EpisodeSet(tmp_path / "made.replay")
    came = []
    for kind in (Draws, DrawsWhenNeeded):
        draws = kind(episodes, AloneLink(), context=4, batch=8, exponent=0.0, seed=0)
        came.append([draws.draw().obs.clone() for _ in range(3)])
        draws.close()
    assert all(map(torch.equal, *came))
