import pytest
from measures import point
from toys import install_backend

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.scheduler.price import prices_of
from gmi_drl.scheduler.profile import Profile
from gmi_drl.scheduler.what_if import compare
from gmi_drl.workload import TASK_SPECS

ANT, PPO = TASK_SPECS["ant"], PPOConfig()
GIB = 2**30


def node(model, count, cores=32):
    return Node(name=f"{model} x{count}", gpus=Gpus(model=model, count=count), cpu=Cpu(cores=cores, memory_gib=512))


def profile(*points, task="ant"):
    return Profile(task=task, learner="ppo", node="H100 PCIe x1", points=points)


ONE, TWO = node("H100 PCIe", 1), node("A30", 2)
POINTS = (point(1, 8192, 100_000.0, 8 * GIB), point(4, 2048, 50_000.0, 4 * GIB), point(4, 4096, 60_000.0, 6 * GIB))


def test_each_machine_is_at_its_best_beside_one_gmi_per_device():
    large, small = compare(ANT, PPO, [ONE, TWO], profile(*POINTS), prices=prices_of(["H100=3", "A30=1"]))
    assert large.best.point.num_env == 4096 and large.gain == pytest.approx(2.4, rel=0.01)
    # 4 x 6 GiB are more than 90 % of an A30's 24 GiB, so that the next point is its best
    assert small.best.point.num_env == 2048 and small.best.projected == 2 * 4 * 50_000
    assert large.known_by == "measured there" and small.known_by == "projected"
    assert large.cost == pytest.approx(3e9 / 3600 / large.best.expected)
    assert small.cost == pytest.approx(2e9 / 3600 / small.best.expected)


def test_backends_are_beside_each_other_and_one_gmi_may_be_another_ones(install):
    install_backend(install)
    known = profile(*POINTS, point(4, 4096, 70_000.0, 5 * GIB).model_copy(update={"backend": "toy"}))
    plain, cut = compare(ANT, PPO, [ONE], known)
    assert (plain.backend, cut.backend) == ("process", "toy") and cut.best.point.backend == "toy"
    assert cut.gain == pytest.approx(2.8, rel=0.01) and cut.cost is None


def test_each_machine_takes_the_points_of_its_own_gpus():
    of = {
        model: point(1, 8192, speed).model_copy(update={"model": model})
        for model, speed in [("A30", 9.0), ("B200", 7.0)]
    }
    large, small = compare(ANT, PPO, [ONE, TWO], profile(*of.values()))
    assert small.best.point.steps_per_second == 9.0 and large.best.point.steps_per_second == 7.0


def test_a_machine_that_nothing_fits_says_why():
    tiny = node("A30", 1, cores=2)
    (case,) = compare(ANT, PPO, [tiny], profile(POINTS[1]))
    assert (
        case.best is None
        and case.gain is None
        and case.known_by.startswith("the node has cores for 2 GMIs of each device")
    )
    (case,) = compare(ANT, PPO, [TWO], profile(POINTS[2]))
    assert case.best is None and "24.0 GiB of a GPU's 24.0 GiB" in case.known_by


def test_a_profile_of_another_task_is_refused():
    with pytest.raises(UsageError, match="the profile is of task humanoid"):
        compare(ANT, PPO, [ONE], profile(*POINTS, task="humanoid"))


def test_mig_beside_mps_says_where_there_is_no_mig():
    known = profile(
        *(
            point(gmis, 2048, speed, GIB).model_copy(update={"backend": backend, "model": model})
            for model, backend, gmis, speed in (
                ("H100 PCIe", "mps", 4, 60_000.0),
                ("H100 PCIe", "mig", 7, 30_000.0),
                ("GeForce RTX 4090", "mps", 4, 50_000.0),
            )
        )
    )
    cases = compare(ANT, PPO, [ONE, node("GeForce RTX 4090", 2), TWO], known)
    told = {(case.node.name, case.backend): (case.best is not None, case.known_by) for case in cases}
    assert told["H100 PCIe x1", "mig"] == (True, "measured there")
    assert told["GeForce RTX 4090 x2", "mps"] == (True, "points of its GPUs")
    assert told["GeForce RTX 4090 x2", "mig"] == (False, "GeForce RTX 4090 (sm_89) has no MIG")
    assert told["A30 x2", "mps"] == (True, "projected from other GPUs")
    assert told["A30 x2", "mig"] == (False, "A30 has at most 4 MIG instances, not 7")


def test_the_reason_is_the_one_that_holds():
    known = profile(
        point(7, 2048, 30_000.0, GIB).model_copy(update={"model": "H100 PCIe"}),
        point(4, 2048, 20_000.0, 99 * GIB).model_copy(update={"model": "A30"}),
    )
    gpus = (Gpus(model="H100 PCIe", count=1), Gpus(model="A30", count=1))
    mixed = Node(name="mixed", gpus=gpus, cpu=Cpu(cores=32, memory_gib=512))
    (case,) = compare(ANT, PPO, [mixed], known)
    assert case.known_by == "no cut was measured on each of H100 PCIe and A30"
    (case,) = compare(ANT, PPO, [ONE], known, keep_batch=7)
    assert "no point by process has 7 samples per update" in case.known_by
