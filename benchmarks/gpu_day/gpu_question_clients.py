"""The processes that `gpu_questions.py` starts on the GPU. Each prints what it finds as JSON.

python gpu_question_clients.py NAME RANK SIZE [ARGUMENT ...]
"""

import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gpu_question_helpers import attached, attempt, has_daemon, join, microseconds, say
from stages import REHEARSAL

COPIED_BYTES = 1 << 26
PARAMETERS = (100_000, 500_000, 1_500_000)

SMID = """
extern "C" __global__ void smid(int* seen) {
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    long long start = clock64();
    while (clock64() - start < 200000) {}
    if (threadIdx.x == 0) seen[id] = 1;
}"""

FAULT = 'extern "C" __global__ void fault(int* seen) { *(volatile int*)16 = seen[0]; }'


def kernel(source: str, name: str) -> Callable[..., None]:
    """Compile a CUDA kernel with the NVRTC that comes with torch."""
    import torch

    compiled: Callable[..., None] = torch.cuda._compile_kernel(source, name)
    return compiled


def seen_sms(seconds: float, stream: Any = None) -> list[int]:
    """The SMs on which blocks of a busy kernel ran."""
    import torch

    run, seen = kernel(SMID, "smid"), torch.zeros(1024, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run(grid=(4096, 1, 1), block=(128, 1, 1), args=[seen], stream=stream)
        torch.cuda.synchronize()
    return [int(index) for index in seen.nonzero().flatten().tolist()]


def sms(rank: str, size: str, seconds: str) -> None:
    """Report the number of SMs, and those that kernels run on."""
    import torch

    say(multiprocessors=torch.cuda.get_device_properties(0).multi_processor_count)
    attempt("sms", lambda: seen_sms(float(seconds)))


def ipc(rank: str, size: str) -> None:
    """Check a tensor that another process changes."""
    import torch

    context = torch.multiprocessing.get_context("spawn")
    tensor, line, theirs = torch.zeros(1 << 20, device="cuda"), *context.Pipe()
    other = context.Process(target=add_one, args=(theirs, tensor))
    other.start()
    is_told = line.poll(18)
    say(same_memory=is_told and line.recv() and bool((tensor == 1).all()))
    other.join(2)
    other.kill()


def add_one(line: Any, tensor: Any) -> None:
    """Add one to the other process's tensor."""
    import torch

    tensor.add_(1)
    torch.cuda.synchronize()
    line.send(True)
    time.sleep(1)  # shared memory must outlive its users


def registration(rank: str, size: str) -> None:
    """Report whether CUDA registers memory that processes share, and the speed of copies with and without that.

    The memory is a memfd, as in reductions and channels.
    """
    import torch

    from gmi_drl.comm.memory.pinned import try_to_register, unregister
    from gmi_drl.comm.memory.rank_slots import Rows
    from gmi_drl.comm.memory.segment import create_segment

    segment = create_segment(1, COPIED_BYTES)
    (slot,) = Rows(segment, 1).slots
    os.close(segment)
    target = torch.empty_like(slot, device="cuda")
    copy = partial(target.copy_, slot, non_blocking=True)
    say(pageable_gb_per_s=round(COPIED_BYTES / microseconds(copy) / 1e3, 2))
    say(refused=(refused := try_to_register(slot)))
    if not refused:
        say(registered_gb_per_s=round(COPIED_BYTES / microseconds(copy) / 1e3, 2))
        unregister(slot)


def warp(rank: str, size: str) -> None:
    """Check what MuJoCo Warp needs of the driver: compiler, graphs, and arrays that another process changes."""
    import warp as wp

    wp.init()
    device = wp.get_device("cuda:0")
    say(
        warp=wp.__version__,
        mempool=wp.is_mempool_enabled(device),
        conditional_graphs=wp.is_conditional_graph_supported(),
    )

    @wp.kernel
    def add_one_each(values: wp.array[float]) -> None:
        values[wp.tid()] += 1.0

    with wp.ScopedDevice(device), wp.ScopedMempool(device, False):
        array = wp.zeros(1 << 20, dtype=float)
        wp.launch(add_one_each, dim=array.shape, inputs=[array])
        say(compiled=bool((array.numpy() == 1).all()))
        with wp.ScopedCapture() as capture:
            wp.launch(add_one_each, dim=array.shape, inputs=[array])
        wp.capture_launch(capture.graph)
        say(graph=bool((array.numpy() == 2).all()))
        context = multiprocessing.get_context("spawn")
        other = context.Process(target=set_to_three, args=(array.ipc_handle(), array.shape))
        other.start()
        other.join(15)
        other.kill()
        say(same_memory=bool((array.numpy() == 3).all()))
        attempt("conditional_nodes", partial(counts_down, device))  # last, because a driver may refuse them


def counts_down(device: Any) -> bool:
    """Whether a graph with a loop that ends on the device, like MuJoCo Warp's solver, computes the right result."""
    import warp as wp

    @wp.kernel
    def count_down(left: wp.array[int], turns: wp.array[int]) -> None:
        left[0] -= 1
        turns[0] += 1

    with wp.ScopedDevice(device):
        left, turns = wp.full(1, 3, dtype=int), wp.zeros(1, dtype=int)
        with wp.ScopedCapture() as capture:
            wp.capture_while(left, partial(wp.launch, count_down, dim=1, inputs=[left, turns]))
        wp.capture_launch(capture.graph)
        return bool(turns.numpy()[0] == 3 and left.numpy()[0] == 0)


def set_to_three(handle: bytes, shape: tuple[int, ...]) -> None:
    """Set the other process's array to three."""
    import warp as wp

    array = wp.from_ipc_handle(handle, float, shape, device="cuda:0")
    array.fill_(3.0)
    wp.synchronize_device("cuda:0")


def symmetric_buffer(dist: Any, count: int) -> Any:
    """A float32 tensor that all ranks can address."""
    import torch
    import torch.distributed._symmetric_memory as symmetric_memory

    tensor = symmetric_memory.empty(count, dtype=torch.float32, device=torch.device("cuda", 0))
    symmetric_memory.rendezvous(tensor, dist.group.WORLD)
    return tensor


def symmetric(rank: str, size: str) -> None:
    """Check and time sums over symmetric memory, which is IPC with barriers on the GPU."""
    import torch

    dist = join("gloo", rank, size)
    group = dist.group.WORLD.group_name
    for count in PARAMETERS:
        tensor = symmetric_buffer(dist, count)
        tensor.fill_(int(rank) + 1)
        torch.cuda.synchronize()
        dist.barrier()
        total = torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", group)
        is_right = bool((total == int(size) * (int(size) + 1) / 2).all())
        say(**{f"sum_of_{count}_is_right": is_right})
        for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
            sums = getattr(torch.ops.symm_mem, name)
            say(**{f"{name}_us_{count}": microseconds(partial(sums, tensor, "sum", group))})


def nccl_version(rank: str, size: str) -> None:
    """The version of torch's NCCL, or of one that was loaded before it."""
    import torch

    say(nccl=torch.cuda.nccl.version(), preloaded=os.environ.get("LD_PRELOAD"))


def nccl(rank: str, size: str) -> None:
    """Check a sum by NCCL with all ranks on this GPU."""
    import torch

    dist = join("nccl", rank, size)
    tensor = torch.full((PARAMETERS[0],), int(rank) + 1.0, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    say(sum_is_right=bool((tensor == int(size) * (int(size) + 1) / 2).all()))
    for count in PARAMETERS:
        sized = torch.zeros(count, device="cuda")
        say(**{f"nccl_us_{count}": microseconds(partial(dist.all_reduce, sized))})


def green(rank: str, size: str) -> None:
    """Split a context into four green contexts, with a stream on each, and report the SMs of its kernels."""
    import torch
    from cuda.bindings import driver

    def checked(result: Any) -> Any:
        if int(result[0]) != 0:
            raise RuntimeError(f"the driver says {result[0]!r}")
        return result[1] if len(result) == 2 else result[1:]

    torch.ones(1, device="cuda")
    device = checked(driver.cuDeviceGet(0))
    whole = checked(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    say(sms=whole.sm.smCount)
    parts, _, rest = checked(driver.cuDevSmResourceSplitByCount(4, whole, 0, whole.sm.smCount // 4 // 8 * 8))
    say(parts=[part.sm.smCount for part in parts], rest=rest.sm.smCount)
    found = []
    for part in parts:
        described = checked(driver.cuDevResourceGenerateDesc([part], 1))
        flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = checked(driver.cuGreenCtxCreate(described, device, flag))
        nonblocking = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = checked(driver.cuGreenCtxStreamCreate(context, nonblocking, 0))
        found.append(set(seen_sms(0.5, torch.cuda.ExternalStream(int(stream)))))
    say(seen=[len(one) for one in found], disjoint=len(set.union(*found)) == sum(map(len, found)))


class Metric(ctypes.Structure):
    """The struct nvmlGpmMetric_t."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("status", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    )


class Metrics(ctypes.Structure):
    """The struct nvmlGpmMetricsGet_t, with space for more metrics than exist."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", Metric * 512),
    )


def gpm(rank: str, size: str) -> None:
    """Report SM utilisation, occupancy and memory bandwidth in percent while the GPU is busy, or NVML's error code."""
    import torch

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, samples = ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]
    say(init=nvml.nvmlInit_v2(), device=nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    matrix = torch.ones(4096, 4096, device="cuda")
    for sample in samples:
        say(alloc=nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)), sample=nvml.nvmlGpmSampleGet(device, sample))
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            matrix.mm(matrix)
            torch.cuda.synchronize()
    wanted = {"sm_util": 2, "sm_occupancy": 3, "dram_bandwidth": 10}
    metrics = Metrics(version=1, count=len(wanted), first=samples[0], second=samples[1])
    for place, number in enumerate(wanted.values()):
        metrics.metrics[place].id = number
    say(get=nvml.nvmlGpmMetricsGet(ctypes.byref(metrics)))
    say(**{name: round(metrics.metrics[place].value, 1) for place, name in enumerate(wanted)})


def work(rank: str, size: str, seconds: str) -> None:
    """Multiply matrices for some seconds, or until the GPU fails."""
    import torch

    started, matrix = time.monotonic(), torch.ones(2048, 2048, device="cuda")
    try:
        while time.monotonic() - started < float(seconds):
            matrix.mm(matrix)
            torch.cuda.synchronize()
    except Exception as error:
        say(hit_after_s=round(time.monotonic() - started, 1), error=str(error)[:200])
        return
    say(unharmed=True)


def fault(rank: str, size: str, seconds: str) -> None:
    """Write to an invalid address some seconds after the context was created."""
    import torch

    run, seen = kernel(FAULT, "fault"), torch.zeros(1, dtype=torch.int32, device="cuda")
    time.sleep(float(seconds))
    try:
        run(grid=(1, 1, 1), block=(1, 1, 1), args=[seen])
        torch.cuda.synchronize()
    except Exception as error:
        say(error=str(error)[:200])
        return
    say(error=None)


CLIENTS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (sms, ipc, registration, warp, symmetric, nccl_version, nccl, green, gpm, work, fault)
}


def main() -> int:
    """Run the named client. Returns the exit code: 1 without CUDA (0 in a rehearsal), or without MPS that it needs."""
    import torch

    name, *arguments = sys.argv[1:]
    if not torch.cuda.is_available():
        say(obstacle="torch sees no CUDA device")
        return 0 if REHEARSAL in os.environ else 1
    torch.ones(1, device="cuda")
    if has_daemon():
        say(attached=(is_served := attached()))
        if not is_served:
            say(obstacle="CUDA runs this process without MPS: the daemon does not serve it")
            return 1
    CLIENTS[name](*arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
