import pytest

from gmi_drl.cli.plan.formulas import WIDTH, explained_lines
from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.scheduler import Plan, plan, plan_cluster, plan_measured, profile_grid
from gmi_drl.scheduler.explain.explain import explain
from gmi_drl.scheduler.explain.formulas import in_ms
from gmi_drl.scheduler.profile import Profile
from gmi_drl.templates import TCG, mapping_of
from gmi_drl.workload import TASK_SPECS
from tests.scheduler.measures import point

ANT, PPO = TASK_SPECS["ant"], PPOConfig()
PAIR = Node(name="pair", gpus=Gpus(model="NVIDIA H100 80GB HBM3", count=2), cpu=Cpu(cores=32, memory_gib=256))
GIB = 2**30
POINTS = (
    point(1, 8192, 200_000.0, 8 * GIB),
    point(2, 4096, 120_000.0, 4 * GIB),
    point(2, 8192, 138_000.0, 6 * GIB, error=0.01),
)


def chosen(points=POINTS, node=PAIR, **more):
    profile = Profile(task="ant", learner="ppo", node="made up", points=points, speeds={"process": dict(OF_CORES)})
    return plan_measured(ANT, PPO, node, profile, profile_grid(profile, node, PPO.horizon), **more)


def formulas(explained):
    return {formula.name.split(" (")[0]: formula for formula in explained.formulas}


def test_every_formula_has_the_numbers_of_the_choice():
    known = chosen()
    best, _ = explain(known, hourly=5.0)
    told = formulas(best)
    assert best.title == "chosen: 2 GMIs per device, 8192 environments each, by process"
    # (138 / 120 - 1) / (6 / 4 - 1), and with two standard errors of 1 % above
    assert told["Saturation of a GMI"].lines[-1] == "0.30" and "at most 0.35" in told["Saturation of a GMI"].remark
    assert told["Estimate"].lines[1:] == ("2 x 2 x 138.0k", "552.0k steps/s")
    assert told["Throughput"].lines[-1] == f"{known.candidates[0].expected / 1000:.1f}k steps/s"
    assert "4 x 8192 x 16 / (950 ms" in told["Throughput"].lines[1]  # 131072 steps at 138k
    bucket = PPO.bucket_bytes(ANT)
    assert told["Size of communication"].lines[-1] == f"{16 * 2 * 3 * bucket / 4 / 2**20:.1f} MiB of each GMI"
    assert "MRR" in " ".join(told)  # Algorithm 1: two GMIs on each of two devices
    assert told["Memory of a GMI"].lines[-1] == "6.0 GiB" and told["Room on a GPU"].lines == (
        "2 GMIs x 6.0 GiB",
        "12.0 GiB",
    )
    assert "fits 90% of 79.6 GiB" in told["Room on a GPU"].remark
    assert told["Cost of a billion steps"].lines[-1] == f"{5e9 / 3600 / known.candidates[0].expected:.2f}"


def test_the_alpha_beta_model_is_that_of_the_plan():
    known = chosen()
    reducing = next(formula for formula in explain(known)[0].formulas if "alpha-beta" in formula.name)
    method = known.layout.groups["trainers"].reduction
    assert method in reducing.name and "ways: memory, by measured speeds;" in reducing.remark


def test_the_alpha_beta_model_of_a_cluster_has_the_gmis_of_a_node_on_one_device():
    cluster = Cluster(network=Network(gbit_per_s=100, round_trip_ms=0.05), nodes=(Nodes(count=3, node=PAIR),))
    profile = Profile(task="ant", learner="ppo", node="made up", points=POINTS, speeds={"process": dict(OF_CORES)})
    several = plan_cluster(ANT, PPO, cluster, profile)
    assert several.layout.nodes != (None,)
    reducing = next(formula for formula in explain(several)[0].formulas if "alpha-beta" in formula.name)
    communication = several.basis.communication(several.candidates[0].cut.backend)
    each_s = communication.seconds(mapping_of(several.candidates[0].cut, several.basis.node)) / communication.reduces
    assert reducing.lines[-1] == in_ms(each_s)


def test_what_was_not_chosen_is_told_by_how_much():
    _, other = explain(chosen())
    assert other.title.startswith("not chosen: 2 GMIs per device, 4096") and "0.869x the choice" in other.verdict


def test_what_ran_goes_before_what_is_expected():
    solo = POINTS[0].cut
    best, other = explain(chosen(confirmed={solo: 390_000.0}))
    assert "390.0k steps/s when all its GMIs ran together" in best.verdict
    assert "what ran goes before what is only expected" in other.verdict


def test_serving_is_equation_2_and_sends_nothing():
    told = formulas(explain(chosen(template=TCG))[0])
    assert "(T_s + T_a + COM/BW)" in told["Throughput"].lines[0] and "Communication" in told
    assert "Size of communication" not in told


def test_what_is_not_known_is_said():
    (only,) = explain(chosen((point(1, 64, 100.0),), Node(name="n", cpu=Cpu(cores=2, memory_gib=8))))
    told = formulas(only)
    assert "nothing to compare" in told["Saturation of a GMI"].remark and "One GMI: COM = 0" in told
    assert "two points" in told["Memory of a GMI"].remark
    with pytest.raises(UsageError, match="no formula to explain"):
        explain(Plan(plan(ANT, PAIR, num_env=64)))


def test_it_reads_in_a_hundred_columns():
    node = PAIR.model_copy(update={"gpus": Gpus(model="NVIDIA H100 80GB HBM3", count=4)})
    lines = list(explained_lines(explain(chosen(node=node), hourly=12_345.678)))
    assert max(map(len, lines)) <= WIDTH == 100 and sum(line.startswith("    = ") for line in lines) > 20
