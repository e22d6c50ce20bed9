import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.benchmarks.cases.components import update_products
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.workload import TASK_SPECS


def test_both_sides_are_measured(monkeypatch):
    monkeypatch.setattr(update_products, "NUM_ENV", 8)
    result = run_case(update_products.CASE, repeats=1, quick=True)
    assert len(result.samples) == 2 and all(spread.least > 0 for spread in result.summaries.values())


def test_products_are_those_of_both_networks_forward_and_backward(monkeypatch):
    policy, done = ActorCritic(TASK_SPECS["ball_balance"], init_std=1.0), list[str]()
    for name in ("mm", "addmm"):
        monkeypatch.setattr(torch, name, noted(name, done))
    before = [one.clone() for one in policy.parameters()]
    update_products.products(policy, batch=4, count=3)()
    layers = len(TASK_SPECS["ball_balance"].hidden) + 1
    assert done.count("addmm") == 3 * 2 * layers
    assert done.count("mm") == 3 * 2 * (2 * layers - 1)  # the first layer's input needs no gradient
    assert all(torch.equal(one, was) for one, was in zip(policy.parameters(), before, strict=True))


def test_in_bfloat16_all_layers_but_the_last_are_multiplied_in_it(monkeypatch):
    policy, types, of_torch = ActorCritic(TASK_SPECS["ball_balance"], init_std=1.0), [], torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda *given, out: types.append(out.dtype) or of_torch(*given, out=out))
    update_products.products(policy, batch=4, count=1, bf16=True)()
    layers = len(TASK_SPECS["ball_balance"].hidden) + 1
    assert types == 2 * [*(layers - 1) * [torch.bfloat16], torch.float32]


def noted(name, done):
    """A function of torch that notes its name at each call."""
    of_torch = getattr(torch, name)

    def call(*given, **more):
        done.append(name)
        return of_torch(*given, **more)

    return call
