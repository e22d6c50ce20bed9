"""Each thing that a GPU would wait for or refuse is seen where nothing computes."""

import pytest
import torch
from operation_counts import META, Counts, WaitsError, meta_device

from gmi_drl.cuda_graph import Captured

ROWS, ON_HOST = torch.zeros(4, 3, device=META), torch.ones(4, 3)
MASK, INDEX = torch.zeros(4, dtype=torch.bool, device=META), torch.tensor([1, 2])

WAITS = {
    "item": (r"copy of \[\] to the host", lambda: ROWS.sum().item()),
    "float": (r"copy of \[\] to the host", lambda: float(ROWS.sum())),
    "a branch": (r"copy of \[\] to the host", lambda: 1 if MASK.any() else 2),
    "tolist": (r"copy of \[4, 3\] to the host", lambda: ROWS.tolist()),
    "numpy": (r"copy of \[4, 3\] to the host", lambda: ROWS.cpu().numpy()),
    "to the host": (r"copy of \[4, 3\] to the host", lambda: ROWS.to("cpu")),
    "copied to the host": (r"copy of \[4, 3\] to the host", lambda: ON_HOST.clone().copy_(ROWS)),
    "to the device": ("copy of 48 bytes to the device", lambda: ON_HOST.to(META)),
    "copied to the device": ("copy of 48 bytes to the device", lambda: ROWS.copy_(ON_HOST)),
    "a constant": ("copy of 8 bytes to the device", lambda: torch.tensor([1.0, 2.0], device=META)),
    "a constant like another": ("copy of 4 bytes to the device", lambda: ROWS.new_tensor(2.0)),
    "an array": ("copy of 4 bytes to the device", lambda: torch.as_tensor([1.0], device=META)),
    "nonzero": ("nonzero", lambda: ROWS.nonzero()),
    "where": ("nonzero", lambda: torch.where(MASK)),
    "rows of a mask": ("index waits for how much of a mask is True", lambda: ROWS[MASK]),
    "rows of a mask, written": ("index_put_ waits for how much of a mask", lambda: ROWS.__setitem__(MASK, ROWS[:1])),
    "a row by a number there": (r"copy of \[\] to the host", lambda: ROWS[ROWS.argmax()]),
    "unique": ("unique", lambda: ROWS.unique()),
    "equal": ("equal", lambda: torch.equal(ROWS, ROWS)),
}
MIXES = {
    "sum": ("add mixes devices", lambda: ROWS + ON_HOST),
    "sum in place": ("add_ mixes devices", lambda: ROWS.add_(ON_HOST)),
    "index": ("index mixes devices", lambda: ROWS[INDEX]),
    "select": ("index_select mixes devices", lambda: ROWS.index_select(0, INDEX)),
    "cat": ("cat mixes devices", lambda: torch.cat((ROWS, ON_HOST))),
}


@pytest.mark.parametrize(("message", "does"), [*WAITS.values(), *MIXES.values()], ids=[*WAITS, *MIXES])
def test_what_a_gpu_waits_for_or_refuses_fails(message, does):
    with meta_device(), pytest.raises((WaitsError, NotImplementedError), match=message):
        does()


def counted(does, waits=0):
    with meta_device() as watch, watch.allow(waits), watch.count() as counts:
        does()
    return counts


def test_kernels_are_counted_and_views_are_none():
    assert counted(lambda: ROWS.view(-1).unsqueeze(0).expand(5, 12)[:, 1:].T) == Counts()
    assert counted(lambda: ROWS + 1) == Counts(launches=1, allocations=1, allocated_bytes=48)
    assert counted(lambda: ROWS.add_(1)) == Counts(launches=1)
    assert counted(lambda: torch.add(ROWS, 1, out=ROWS)) == Counts(launches=1)
    assert counted(lambda: ROWS[:, 0].copy_(ROWS[:, 1])) == Counts(launches=1)
    assert counted(lambda: ROWS.__setitem__((0, 0), 1.0)) == Counts(launches=1)
    assert counted(lambda: ROWS.masked_fill(MASK[:, None], 0.0)).launches == 2
    assert counted(lambda: torch.empty(2, device=META)) == Counts(allocations=1, allocated_bytes=8)
    assert counted(lambda: torch.zeros(2, 0, device=META)) == Counts()
    assert counted(lambda: ON_HOST + ON_HOST) == Counts()


def test_transfers_are_counted_with_their_bytes_and_whether_the_host_waits():
    assert counted(ROWS.cpu, waits=1) == Counts(waits=1, to_host=1, to_host_bytes=48)
    assert counted(lambda: ON_HOST.clone().copy_(ROWS, non_blocking=True)) == Counts(to_host=1, to_host_bytes=48)
    assert counted(lambda: ROWS.copy_(ON_HOST, non_blocking=True)) == Counts(to_device=1, to_device_bytes=48)
    assert counted(lambda: ROWS.copy_(ON_HOST.double()), waits=1) == Counts(waits=1, to_device=1, to_device_bytes=48)
    upload = Counts(waits=1, to_device=1, to_device_bytes=48)
    assert counted(lambda: ON_HOST.to(META), waits=1) == upload + Counts(allocations=1, allocated_bytes=48)
    assert counted(lambda: torch.tensor([[1.0] * 3] * 4, device=META), waits=1) == upload
    assert counted(ROWS.sum().item, waits=1) == Counts(waits=1, to_host=1, to_host_bytes=4)


def test_a_wait_that_is_allowed_for_must_come_and_no_more():
    with meta_device() as watch:
        with pytest.raises(AssertionError, match="1 of 2 waits did not come"), watch.allow(2):
            ROWS.cpu()
        with pytest.raises(WaitsError, match=r"copy of \[4, 3\] to the host"), watch.allow(1):
            ROWS.cpu(), ROWS.cpu()


def test_what_would_be_captured_is_one_graph_and_may_not_copy():
    assert counted(Captured(lambda: ROWS.add_(1).mul_(2), META)) == Counts(graphs=1, in_graphs=2)
    with meta_device(), pytest.raises(WaitsError, match="a graph copies"):
        Captured(lambda: ON_HOST.to(META, non_blocking=True), META)()


def test_backward_passes_are_counted_and_numbers_are_drawn_without_a_generator_of_the_device():
    def train():
        weights = torch.zeros(3, 2, device=META, requires_grad=True)
        noise = torch.randn(4, 2, generator=torch.Generator(META).manual_seed(1), device=META)
        ((ROWS @ weights) * noise).sum().backward()

    forward = 5  # weights, noise, product, noise times it, sum
    assert counted(train).launches > forward + 2
