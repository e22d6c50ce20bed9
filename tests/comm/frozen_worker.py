"""One rank of a group whose ranks are stopped while rank 0 waits: `python frozen_worker.py '<json>'`."""

import json
import sys
from pathlib import Path

from gmi_drl.comm import open_group
from gmi_drl.reductions import REDUCTIONS

order = json.loads(sys.argv[1])
print("imported", flush=True)
input()
method, path = REDUCTIONS.find(order["method"]), Path(order["path"])
group = open_group(method, order["rank"], 2, fd=order["fd"], path=path, hang_s=order["hang_s"])
print("open", flush=True)
if order["rank"] == 1:
    input()
group.barrier()
print("done", flush=True)
