"""The launcher of `soak_mps.py`: holds a GPU by MPS, with clients, until it is ended.

python soak_mps_launcher.py drains|deaf|forks|GMIs FORKS FOLDER
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

TESTS = Path(__file__).resolve().parents[2] / "tests"
CLIENT = TESTS / "gmi/mps/mps_client.py"
ROLE = f"{TESTS / 'launch/mps_roles.py'}:Works"
PR_SET_NAME = 15
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(kind: str, forks: str, folder: str) -> None:
    """Run until a signal ends the launcher."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # what a handler raises within an import may be lost
    from gmi_drl import run_role
    from gmi_drl.gmi import claimed
    from gmi_drl.layout.layout import GMI, Device, Layout

    for number in ENDING:
        signal.signal(number, leave)
    if forks == "True" and not os.fork():
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"fork-of-soak")
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    parts = tuple(GMI(id=i, num_env=1, cores=(0,)) for i in range(2))
    layout = Layout(backend="mps", share_cores=True, devices=(Device(kind="gpu", gmis=parts),))
    if kind == "GMIs":
        run_role(ROLE, layout, run_dir=Path(folder) / "run")
        return
    with claimed([layout], "a soak") as claim, claim.cut(layout) as instances, ExitStack() as life:
        for gmi in layout.gmis:
            environment = os.environ | instances.environment(gmi.id)
            process = subprocess.Popen([sys.executable, str(CLIENT), kind], env=environment, stdout=subprocess.PIPE)
            life.callback(process.kill)
            life.callback(lambda: instances.release({0: os.getpgid(0)}))
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(600)


def leave(number: int, frame: FrameType | None) -> None:
    """Shut down in order, only once."""
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main(*sys.argv[1:])
