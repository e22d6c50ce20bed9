from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import grid_of, search_grid
from gmi_drl.scheduler.backend_choice import backends_to_try, unmeasured_choice

CORES = Node(name="cores", cpu=Cpu(cores=4, memory_gib=8))
A100 = CORES.model_copy(update={"gpus": Gpus(model="A100-SXM4-40GB", count=1)})
CARD = CORES.model_copy(update={"gpus": Gpus(model="GeForce RTX 4090", count=1)})


def test_on_gpus_all_backends_are_looked_at_that_their_models_allow():
    assert backends_to_try(None, A100) == backends_to_try("auto", A100) == ("process", "mps", "mig", "mig-ci")
    assert backends_to_try("auto", CARD) == ("process", "mps")
    assert backends_to_try(None, CORES) == backends_to_try("auto", CORES) == ("process",)
    assert backends_to_try("mig", CARD) == ("mig",), "what is asked for is tried, and says what it lacks"


def test_of_several_backends_one_gmi_alone_is_measured_once():
    grid = search_grid(A100, 16, num_env=64, backends=["process", "mps"])
    solo = (Cut(1, 64),)
    assert grid == solo + tuple(Cut(size, 64, backend) for size in (2, 4, 3) for backend in ("process", "mps"))
    assert search_grid(A100, 16, num_env=64, gmis_per_gpu=1, backends=["mps"]) == grid_of({1: [64]}, "mps")


def test_a_number_that_a_backend_cannot_make_is_by_the_others():
    a30 = CORES.model_copy(update={"gpus": Gpus(model="A30", count=1), "cpu": Cpu(cores=8, memory_gib=8)})
    grid = search_grid(a30, 16, num_env=64, backends=["process", "mig"])
    assert {cut.gmis_per_gpu for cut in grid if cut.backend == "mig"} == {2, 3, 4}
    assert {cut.gmis_per_gpu for cut in grid if cut.backend == "process"} == set(range(1, 9))


def test_training_wants_communication_and_serving_isolation():
    backend, why = unmeasured_choice(A100, "training", 4)
    assert backend == "mps" and "by what training wants, nothing was measured: " in why and "gradients" in why
    backend, why = unmeasured_choice(A100, "serving", 4)
    assert backend == "mig" and "slows and breaks no other" in why
    assert unmeasured_choice(A100, "serving", 8)[0] == "mps", "there are seven MIG instances"
    assert unmeasured_choice(CARD, "serving", 2)[0] == "mps" and unmeasured_choice(CORES, "serving", 2)[0] == "process"
