"""Processes of channels stay as large as they are, however much passes through them."""

import time
from itertools import pairwise

import psutil
import pytest

from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector
from tests.comm.channels.channel_run import started
from tests.comm.channels.traced_rollouts import FORM, RECORDS, sizes_of

LARGE = RolloutForm(FORM.horizon, num_env=256, observation=vector(40), action=continuous(2), num_terms=1)
WARM = 300
"""Rollouts of each agent until all memory is there that a process needs: buffers, threads, caches of the allocator."""

MORE, STRETCHES = 500, 3
"""Rollouts of each agent in a stretch from then on, and the number of stretches.

What leaks does so in each stretch. An allocator or the kernel (huge pages of 2 MiB) takes more in one of them at most.
"""

MOST_BYTES = 350 * 2**10
"""That a process may grow by in its best stretch.

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
    assert 60 * sizes.places < MORE and MORE * sizes.batch_bytes / sizes.rollouts > 100 * MOST_BYTES
    with started(sizes, updates=10**6, far={2}, hurries=True) as run:
        seen = []
        for stretch in range(STRETCHES + 1):
            await_rollouts(run, WARM + stretch * MORE)
            seen.append(resident(run))
    grown = {name: min(after[name] - before[name] for before, after in pairwise(seen)) for name in seen[0]}
    assert max(grown.values()) < MOST_BYTES, grown
