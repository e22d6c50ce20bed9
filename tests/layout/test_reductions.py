from dataclasses import replace

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.hardware.speeds import GLOO, GPU_MEMORY, LINK, MEMORY, NCCL, OF_CORES, Speed
from gmi_drl.layout.mapping import even_mapping, har_seconds, mpr_seconds, mrr_seconds
from gmi_drl.layout.reductions import (
    HAR,
    HOROVOD,
    IPC,
    MPR_GLOO,
    MPR_SHM,
    MRR,
    NCCL_FLAT,
    NONE,
    REDUCTIONS,
    SHARD,
    TORCH,
    by_speed,
    legal_reductions,
    refusal,
    usual_reduction,
)
from gmi_drl.registry import Registry

PAIR = [[0, 1]]


def test_the_usual_one_goes_by_the_processor():
    assert usual_reduction([[0]], "riscv64") is NONE
    assert usual_reduction(PAIR, "x86_64") is usual_reduction(PAIR, "aarch64") is MPR_SHM
    assert usual_reduction(PAIR, "riscv64") is MPR_GLOO
    one = [[0, 1], []]  # trainers may all be on one of several GPUs
    assert usual_reduction(one, "x86_64", "gpu", maps_memory=True) is IPC
    assert usual_reduction([[0], [1]], "x86_64", "gpu", maps_memory=True) is MPR_SHM
    assert usual_reduction(one, "x86_64", "gpu") is usual_reduction(one, "x86_64", maps_memory=True) is MPR_SHM


def test_what_a_method_cannot_is_said_with_what_can():
    assert refusal(NONE, [[0]]) is None
    others = "use MPR-shm, MPR-gloo, HAR, SHARD"  # and baselines
    assert refusal(NONE, PAIR, "cpu").startswith(f"reduction 'none' is for a GMI alone, not for 2: {others}")
    uneven = refusal(MRR, [[0, 1], [2, 3, 4]], "cpu")
    assert uneven.startswith(f"reduction 'MRR' needs as many GMIs on every device, not 2 and 3: {others}")
    assert "at most as many GMIs per device as devices, not 3 on 2" in refusal(MRR, even_mapping(2, 3))
    assert refusal(MRR, even_mapping(2, 2)) is None
    assert refusal(MPR_SHM, PAIR) is None
    assert MPR_SHM.runs_on("x86_64") and MPR_GLOO.runs_on("any") and not HAR.runs_on("riscv64")


def test_those_for_gpus_are_refused_on_cores_and_say_what_is_for_them():
    others = "use MPR-shm, MPR-gloo, HAR, SHARD"  # and baselines
    for method in (IPC, NCCL_FLAT):
        said = refusal(method, PAIR, "cpu")
        assert said.startswith(f"reduction {method.name!r} is for GMIs on GPUs, not on cores: {others}")
        assert refusal(method, PAIR, "gpu") is None and refusal(method, [[0, 1, 2]]) is None


def test_memory_of_one_gpu_is_for_its_own_gmis():
    said = refusal(IPC, [[0, 1], [2]], "gpu")
    assert said.startswith("reduction 'IPC' is for GMIs of one GPU, not of 2 devices: use MPR-shm")
    assert "NCCL-flat" in said and refusal(NCCL_FLAT, [[0, 1], [2]], "gpu") is None
    assert IPC.is_for(PAIR, "gpu", "x86_64") and not IPC.is_for(PAIR, "gpu", "riscv64")


def test_by_speed_those_for_gpus_are_chosen_only_where_somebody_has_measured_them():
    assert {IPC, NCCL_FLAT} < set(legal_reductions(PAIR, "gpu", "x86_64"))
    usual = [method for _, method in by_speed(PAIR, 1e6, OF_CORES, "gpu", "x86_64")]
    assert MPR_SHM in usual and not {IPC, NCCL_FLAT} & set(usual)
    measured = {**OF_CORES, GPU_MEMORY: Speed(round_s=1e-6, bytes_per_second=1e12)}
    assert by_speed(PAIR, 1e6, measured, "gpu", "x86_64")[0] == (pytest.approx(3e-6), IPC)
    assert IPC not in [method for _, method in by_speed(PAIR, 1e6, measured, "cpu", "x86_64")]
    assert NCCL_FLAT.seconds(PAIR, 1e6, {NCCL: Speed(round_s=1.0, bytes_per_second=1e6)}) == pytest.approx(3.0)


@pytest.mark.parametrize(("devices", "gmis"), [(2, 1), (2, 2), (3, 2), (4, 4)])
def test_bytes_alone_cost_what_tables_2_and_5_say(devices, gmis):
    """The paper counts neither the copies of HAR's last step nor MRR's broadcast after the second ring."""
    mapping, bucket = even_mapping(devices, gmis), 8e6
    speeds = {
        MEMORY: Speed(round_s=0, bytes_per_second=8e9),
        LINK: Speed(round_s=0, bytes_per_second=2e9),
        GLOO: Speed(round_s=0, bytes_per_second=1e9),
    }
    of = {method: method.seconds(mapping, bucket, speeds) for method in (MPR_SHM, MPR_GLOO, MRR, HAR, SHARD)}
    assert of[MPR_SHM] == pytest.approx(mpr_seconds(devices, gmis, bucket, 8e9))
    assert of[MPR_GLOO] == pytest.approx(mpr_seconds(devices, gmis, bucket, 1e9))
    assert of[HAR] - bucket / 8e9 == pytest.approx(har_seconds(devices, gmis, bucket, 8e9, 2e9))
    assert of[SHARD] - (1 - 1 / gmis) * bucket / 8e9 == pytest.approx(har_seconds(devices, gmis, bucket, 8e9, 2e9))
    own = 2 * (devices - 1) / devices + (2 * (gmis - 1) / gmis + 1 if gmis > 1 else 0)
    assert of[MRR] == pytest.approx(own * bucket / 2e9)
    assert gmis > 1 or of[MRR] < mrr_seconds(devices, gmis, bucket, 2e9)


def test_rounds_cost_however_little_is_moved():
    speeds = {
        MEMORY: Speed(round_s=1, bytes_per_second=1),
        LINK: Speed(round_s=10, bytes_per_second=1),
        GLOO: Speed(round_s=100, bytes_per_second=1),
    }
    taken = {method.name: method.seconds(even_mapping(3, 2), 0, speeds) for method in (MPR_SHM, MPR_GLOO, MRR, HAR)}
    assert taken == {"MPR-shm": 2, "MPR-gloo": 200, "MRR": 1 + 10 * (1 + 4 + 2 + 2), "HAR": 2 + 10 * (1 + 4) + 2}
    assert NONE.seconds([[0]], 8_000, speeds) == 0


def test_nccl_wants_a_gpu_for_each_gmi():
    said = refusal(TORCH, even_mapping(2, 2), "gpu")
    assert said.startswith("reduction 'torch' needs a GPU for each GMI, as NCCL does, not 2 on one: use MPR-shm")
    assert refusal(TORCH, even_mapping(2, 1), "gpu") is None
    assert refusal(TORCH, even_mapping(2, 2), "cpu") is None and refusal(TORCH, even_mapping(2, 2)) is None


def test_what_is_not_installed_is_told_and_not_offered(monkeypatch):
    nowhere = replace(MPR_SHM, name="toy", package="no-such-package")
    monkeypatch.setattr(
        "gmi_drl.layout.reductions.REDUCTIONS", Registry("reduction", "nothing", (NONE, nowhere, MPR_GLOO))
    )
    install = "pip install 'gmi-drl[no-such-package]'"
    assert nowhere.missing().startswith("reduction 'toy' needs no-such-package, which is not installed: " + install)
    assert MPR_SHM.missing() is None and replace(MPR_SHM, package="torch").missing() is None
    assert legal_reductions(PAIR, "cpu", "x86_64") == [MPR_GLOO]
    assert refusal(NONE, PAIR).endswith("use MPR-gloo")


def test_a_plan_takes_no_baseline():
    assert {TORCH, HOROVOD} <= set(REDUCTIONS.usable())
    for mapping in (PAIR, [[0], [1]]):
        ranked = {method.name for _, method in by_speed(mapping, 1e6, OF_CORES, "cpu", "x86_64")}
        assert "MPR-gloo" in ranked and not ranked & {"torch", "horovod"}


def test_an_unknown_one_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="there is no reduction 'MPR-shn'; did you mean 'MPR-shm'"):
        REDUCTIONS.find("MPR-shn")
