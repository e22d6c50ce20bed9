from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.memory import fit, memory_models, shortage, shortage_together
from gmi_drl.scheduler.profile import ProfilePoint

GIB = 2**30


@given(st.integers(0, 2**32), st.integers(0, 2**20), st.sets(st.integers(1, 16384), min_size=2, max_size=6))
def test_fit_recovers_linear_memory_model(fixed, slope, num_envs):
    model = fit((num_env, fixed + slope * num_env) for num_env in num_envs)
    if model is not None:  # sizes of zero are unknown
        assert abs(model(20_000) - (fixed + slope * 20_000)) <= 1e-6 * (fixed + slope * 20_000) + 1


def test_one_number_of_environments_is_no_line_and_memory_never_falls():
    assert fit([(128, 5)]) is None and fit([(128, 5), (128, 6)]) is None and fit([(128, 0), (256, 7)]) is None
    assert fit([(128, 600), (256, 500)]).bytes_per_env == 0


def test_models_are_by_size_and_of_what_runs():
    points = [ProfilePoint(gmis_per_gpu=2, num_env=n, runnable=True, memory_bytes=100 + n) for n in (128, 256)]
    points += [ProfilePoint(gmis_per_gpu=1, num_env=n, runnable=n < 256, memory_bytes=100 + n) for n in (128, 256)]
    models = memory_models(points)
    assert list(models) == [2] and models[2](512) == 612


def test_shortage_names_the_numbers():
    cpu = Node(name="c", cpu=Cpu(cores=8, memory_gib=10))
    assert shortage(cpu, 4, 4, 2 * GIB, 2 * GIB) is None
    assert shortage(cpu, 5, 5, 2 * GIB, 2 * GIB) == "5 GMIs would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage(cpu, 1, 1, 10 * GIB, GIB) == "1 GMI would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage(cpu, 9, 9, GIB, GIB) is None, "what is spared is left, and no more is asked for"
    gpu = Node(name="g", gpus=Gpus(model="X", count=2, memory_gib=40), cpu=Cpu(cores=8, memory_gib=10))
    assert shortage(gpu, 4, 2, 17 * GIB, GIB) is None
    many = shortage(cpu, 4, 4, 0, 1000 * GIB, shared_bytes=2**20 * GIB)
    assert many == "4 GMIs and 1024.0 TiB of channels would take 1027.9 TiB of the host's 10.0 GiB"
    assert shortage(gpu, 4, 2, 19 * GIB, GIB) == "2 GMIs would take 38.0 GiB of a GPU's 40.0 GiB"
    assert shortage(gpu, 4, 2, GIB, 3 * GIB) == "4 GMIs would take 12.0 GiB of the host's 10.0 GiB"


def test_channels_are_of_the_host_once():
    gpu = Node(name="g", gpus=Gpus(model="X", count=2, memory_gib=4), cpu=Cpu(cores=8, memory_gib=10))
    assert shortage(gpu, 4, 2, GIB, GIB, shared_bytes=5 * GIB) is None
    told = "4 GMIs and 6.0 GiB of channels would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage(gpu, 4, 2, GIB, GIB, shared_bytes=6 * GIB) == told


def test_layouts_that_live_together_share_the_memory():
    cpu = Node(name="c", cpu=Cpu(cores=8, memory_gib=10))
    sizes = {(size, n): (GIB if size == 1 else GIB // 2) + n * 2**20 for size in (1, 2) for n in (128, 256)}
    points = [
        ProfilePoint(gmis_per_gpu=size, num_env=n, runnable=True, memory_bytes=held)
        for (size, n), held in sizes.items()
    ]
    assert shortage_together(cpu, 1, points, [Cut(1, 1024), Cut(2, 512)]) is None  # 2 GiB and 2 x 1
    beyond = "would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage_together(cpu, 1, points, [Cut(1, 5120), Cut(2, 1536)]) == f"3 GMIs {beyond}"
    assert shortage_together(cpu, 1, points, [Cut(4, 2048)]) == f"4 GMIs {beyond}", "as the next smaller size"
    assert shortage_together(cpu, 1, [], [Cut(1, 2**20)]) is None, "nothing is known"


def test_one_number_of_environments_tells_what_as_many_take():
    cpu = Node(name="c", cpu=Cpu(cores=8, memory_gib=10))
    points = [ProfilePoint(gmis_per_gpu=2, runnable=True, num_env=256, memory_bytes=5 * GIB)]
    told = "2 GMIs would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage_together(cpu, 1, points, [Cut(2, 256)]) == told
    assert shortage_together(cpu, 1, points, [Cut(2, 128)]) is None, "fewer take less, but how much is not known"


def test_every_cpu_device_takes_its_part_of_the_host():
    cpu = Node(name="c", cpu=Cpu(cores=8, memory_gib=10))
    rows = [{"num_env": n, "memory_bytes": GIB} for n in (128, 256)]
    points = [ProfilePoint(gmis_per_gpu=2, runnable=True, **row) for row in rows]
    assert shortage_together(cpu, 4, points, [Cut(2, 256)]) is None  # 2 x 4 x 1 GiB
    told = "10 GMIs would take 10.0 GiB of the host's 10.0 GiB"
    assert shortage_together(cpu, 5, points, [Cut(2, 256)]) == told


def test_what_a_backend_takes_tells_of_others_that_were_not_measured():
    cpu = Node(name="c", cpu=Cpu(cores=8, memory_gib=10))
    rows = [{"num_env": n, "memory_bytes": GIB + n * 2**20} for n in (128, 256)]
    points = [ProfilePoint(gmis_per_gpu=1, runnable=True, **row) for row in rows]
    small = [ProfilePoint(gmis_per_gpu=1, runnable=True, backend="mps", num_env=n, memory_bytes=n) for n in (1, 2)]
    for backend in ("process", "mps"):
        assert shortage_together(cpu, 1, points, [Cut(1, 9216, backend)]) is not None
    assert shortage_together(cpu, 1, points + small, [Cut(1, 9216, "mps")]) is None


def test_every_device_takes_its_part_of_the_host():
    gpu = Node(name="g", gpus=Gpus(model="X", count=3, memory_gib=40), cpu=Cpu(cores=8, memory_gib=10))
    rows = [{"num_env": n, "memory_bytes": GIB, "host_bytes": GIB + n * 2**20} for n in (128, 256)]
    points = [ProfilePoint(gmis_per_gpu=2, runnable=True, **row) for row in rows]
    assert shortage_together(gpu, 3, points, [Cut(2, 512)]) is None  # 2 x 3 x 1.5 GiB
    assert shortage_together(gpu, 3, points, [Cut(2, 768)]) == "6 GMIs would take 10.5 GiB of the host's 10.0 GiB"
    small = gpu.model_copy(update={"gpus": gpu.gpus.model_copy(update={"memory_gib": 4})})
    assert shortage_together(small, 3, points, [Cut(2, 128)]) is None
    told = "4 GMIs would take 4.0 GiB of a GPU's 4.0 GiB"
    roomy = small.model_copy(update={"cpu": Cpu(cores=8, memory_gib=100)})
    assert shortage_together(roomy, 3, points, [Cut(2, 128), Cut(2, 256)]) == told, "of one device"
