"""Processes of channels stay as large as they are, however much passes through them."""

import time

import psutil
import pytest

from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector
from tests.comm.channels.channel_run import started
from tests.comm.channels.traced_rollouts import FORM, RECORDS, sizes_of

LARGE = RolloutForm(FORM.horizon, num_env=256, observation=vector(40), action=continuous(2), num_terms=1)
WARM = 300
"""Rollouts of each agent until all memory is there that a process needs: buffers, threads, caches of the allocator."""

MORE = 1500
"""Rollouts of each agent from then on."""

MOST_BYTES = 2**20
"""That a process may grow by: allocators took 128 KiB until the 1000th rollout, and up to the 7000th nothing more.

For each rollout that is 700 bytes, less than if a process kept the numbers of its records, of which there are 11 at
least, let alone the 130 KB that they tell of.
"""


def resident(run):
    processes = {**run.processes, **{f"proxy of {gmi}": one for gmi, one in run.proxies.items()}}
    return {name: psutil.Process(process.pid).memory_info().rss for name, process in processes.items()}


def await_rollouts(run, count):
    while min(map(len, run.leases.values())) < count:
        assert not any(reader.poll() for reader, _ in run.pipes.values()), "somebody has ended"
        time.sleep(0.01)


@pytest.mark.parametrize("mode", RECORDS)
def test_no_process_grows_with_what_passes_through_it(mode):
    sizes = sizes_of(rollouts=2, agents=(1, 2), form=LARGE, mode=mode, max_lag=2)
    assert 200 * sizes.places < MORE and MORE * sizes.batch_bytes / sizes.rollouts > 100 * MOST_BYTES
    with started(sizes, updates=10**6, far={2}, hurries=True) as run:
        await_rollouts(run, WARM)
        before = resident(run)
        await_rollouts(run, WARM + MORE)
        grown = {name: size - before[name] for name, size in resident(run).items()}
    assert max(grown.values()) < MOST_BYTES, grown
