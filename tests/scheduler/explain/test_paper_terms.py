"""What of a profile goes into the paper's cost model, and what it says where something was not measured."""

import pytest

from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import MEMORY, OF_CORES, Speed
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.explain.paper_terms import known_terms
from gmi_drl.scheduler.profile import Profile
from gmi_drl.workload import TASK_SPECS
from tests.scheduler.shares import CORES, GIB, HALF, OTHERS, PPO, QUARTER, WHOLE, point

ANT = TASK_SPECS["ant"]
GPU = Node(name="g", gpus=Gpus(model="A100-SXM4-40GB", count=2), cpu=Cpu(cores=8, memory_gib=64))


CUT = Cut(2, 512)


def known(*points, node=CORES, cut=CUT, speeds=None, sums=16):
    profile = Profile(task="ant", learner="ppo", node="m", points=points, speeds=speeds)
    return known_terms(profile, cut, node, ANT, PPO, sums)


def test_the_terms_are_those_of_the_measured_points():
    found = known(
        WHOLE, HALF, QUARTER, *OTHERS, speeds={"process": {MEMORY: Speed(round_s=1e-6, bytes_per_second=5e9)}}
    )
    terms = found.terms
    assert (terms.T_s, terms.T_a, terms.T_t) == (0.6, 0.1, 0.3)
    assert (terms.R_s, terms.R_a, terms.R_t) == (0.5, 0.25, 1.0)
    assert terms.alpha == pytest.approx(1 / 6) and terms.beta == pytest.approx(1 / 2)
    assert (terms.S, terms.A, terms.W) == (60 * 4, 8 * 4, 4) and terms.num_env == 512 and terms.m == PPO.horizon
    assert terms.M_p == PPO.bucket_bytes(ANT) and (terms.n, terms.R_all, terms.sums) == (2, 1, 16)
    assert terms.BW == 5e9 and found.speeds_measured and not found.lacking


def test_a_process_needs_the_smallest_share_that_keeps_95_percent_of_its_rate():
    needs = known(WHOLE, HALF, QUARTER).needs
    assert needs.compute == 1.0 and needs.memory == 1 / 8 and needs.resource == "SM", "half of it: 0.81 of the rate"
    nearly = point(2, 0.63, 0.105, 0.315)  # 0.952 of the rate
    assert known(WHOLE, nearly, QUARTER).needs.compute == 0.5
    hardly = point(2, 0.64, 0.107, 0.32)  # 0.937
    assert known(WHOLE, hardly, QUARTER).needs.compute == 1.0


def test_bandwidth_that_nobody_measured_is_said_to_be_usual():
    found, usual = known(WHOLE, HALF), OF_CORES[MEMORY].bytes_per_second
    assert usual == found.terms.BW and not found.speeds_measured


def test_where_nothing_is_learnt_no_parameters_are_moved():
    terms = known(point(1, 0.6, 0.1, 0.0), point(2, 0.6, 0.1, 0.0), sums=0).terms
    assert terms.M_p == terms.sums == terms.T_t == terms.beta == 0


@pytest.mark.parametrize(
    ("points", "lacking"),
    [
        ((HALF,), "one GMI per device with 512 environments was not measured"),
        ((WHOLE, *OTHERS), "512 environments were measured on whole devices only"),
        ((WHOLE, HALF.model_copy(update={"phases": None})), "phases of its points"),
        ((WHOLE.model_copy(update={"memory_bytes": 0}), HALF), "the memory of a GMI or of a device is not known"),
        ((point(1, 1, 1, 1, memory=6 * GIB), point(2, 1, 1, 1)), "memory is the dominant resource"),
    ],
)
def test_what_was_not_measured_is_not_made_up(points, lacking):
    found = known(*points)
    assert found.terms is None and lacking in found.lacking


def test_shares_of_a_gpu_are_known_where_its_backend_holds_gmis_to_them():
    by_mps = [one.model_copy(update={"backend": "mps", "capped": True}) for one in (HALF, QUARTER)]
    uncapped = [one.model_copy(update={"capped": False, "steps_per_second": 1e9}) for one in by_mps]
    plain, cut = known(WHOLE, HALF, node=GPU), Cut(2, 512, "mps")
    assert plain.terms is None and "process holds no GMI to a share of its GPU" in plain.lacking
    assert "measured on whole devices only" in known(WHOLE, *uncapped, node=GPU, cut=cut).lacking
    terms = known(WHOLE, HALF, *uncapped, *by_mps, node=GPU, cut=cut).terms
    assert (terms.R_s, terms.R_a, terms.R_t) == (0.5, 0.25, 1.0) and (terms.R_all, terms.n) == (2, 4)
    assert known(WHOLE, *by_mps, node=GPU, cut=cut).needs.memory == pytest.approx(1 / GPU.gpu_memory_gib)
