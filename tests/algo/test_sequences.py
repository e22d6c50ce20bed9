import torch

from gmi_drl.algo.sequences import cut, sizes_of, transitions_of


def test_parts_of_an_order_are_whole_sequences_step_by_step():
    length, num_env, parts = 3, 4, 3
    time = torch.arange(2 * 6 * num_env).view(2, 6, num_env)  # two rollouts of two sequences each
    order = torch.randperm(2 * 2 * num_env)
    places = transitions_of(order, length, num_env, parts)
    assert sorted(places.tolist()) == list(range(time.numel()))
    sizes = sizes_of(len(order), parts)
    assert sizes == [5, 5, 5, 1]
    for part, chosen in zip(torch.split(places, [s * length for s in sizes]), torch.split(order, sizes), strict=True):
        for column, sequence in zip(part.view(length, -1).T, chosen.tolist(), strict=True):
            rollout, rest = divmod(sequence, 2 * num_env)
            which, env = divmod(rest, num_env)
            assert column.tolist() == time[rollout, which * length : (which + 1) * length, env].tolist()


def test_fields_are_cut_by_units():
    steps, states = torch.arange(14), torch.arange(7)
    pieces = cut({"steps": steps, "states": states, "none": None}, sizes_of(7, 2), 7)
    assert [piece["states"].tolist() for piece in pieces] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [len(piece["steps"]) for piece in pieces] == [6, 6, 2] and pieces[0]["none"] is None
    assert pieces[1]["steps"].data_ptr() == steps[6:].data_ptr()
