from gmi_drl.layout.experience import LINE_BYTES, RolloutForm
from gmi_drl.workload.spaces import continuous, vector


def test_a_rollout_has_every_kind_once_with_its_shape():
    kinds = {kind.name: kind for kind in RolloutForm(16, 4, vector(60), continuous(8), num_terms=3).kinds}
    plain = {kind.name: kind for kind in RolloutForm(16, 4, vector(60), continuous(8)).kinds}
    assert plain.keys() == kinds.keys() and plain["sums"].shape == (5,)
    assert kinds["obs"].shape == (16, 4, 60) and kinds["obs"].nbytes == 4 * 16 * 4 * 60
    assert kinds["last_obs"].shape == (4, 60) and not kinds["last_obs"].is_stepwise
    assert kinds["delta"].nbytes == 8 * 121 and kinds["sums"].shape == (8,)


def test_kinds_of_rollouts_side_by_side_do_not_overlap_and_begin_at_lines():
    form = RolloutForm(3, 5, vector(7), continuous(2))
    offsets = form.offsets(places=3)
    assert len(offsets) == len(form.kinds) + 1 and offsets[0] == 0
    for kind, begin, end in zip(form.kinds, offsets, offsets[1:], strict=False):
        assert begin % LINE_BYTES == 0 and begin + 3 * kind.nbytes <= end < begin + 3 * kind.nbytes + LINE_BYTES
