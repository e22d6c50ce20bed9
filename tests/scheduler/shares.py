"""Made-up points of one GMI on all of a device, on half of it and on a quarter."""

from gmi_drl.config.learners import PPOConfig
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.scheduler.profile import Phases, ProfilePoint

PPO = PPOConfig()
CORES = Node(name="n", cpu=Cpu(cores=4, memory_gib=8))
GIB = 2**30


def point(gmis, sim_s, act_s, learn_s, num_env=512, backend="process", memory=GIB):
    """Steps/s follow from the phases."""
    phases = Phases(sim_s=sim_s, act_s=act_s, learn_s=learn_s, sync_s=0.0)
    speed = num_env * PPO.horizon / (sim_s + act_s + learn_s)
    row = {"steps_per_second": speed, "memory_bytes": memory, "phases": phases}
    return ProfilePoint(gmis_per_gpu=gmis, num_env=num_env, backend=backend, runnable=True, **row)


WHOLE = point(1, 0.6, 0.1, 0.3)
# Half a device simulates as fast within 5 %, a quarter acts as fast, and training takes all of it.
HALF, QUARTER = point(2, 0.63, 0.1, 0.5), point(4, 1.2, 0.105, 1.0)
OTHERS = (point(1, 9.0, 9.0, 9.0, num_env=256), point(4, 0.1, 0.1, 0.1, num_env=256))
