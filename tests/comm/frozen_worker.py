"""One rank of a group whose ranks are stopped while rank 0 waits: `python frozen_worker.py '<json>'`."""

import json
import sys
from pathlib import Path

from gmi_drl.comm import open_reduction

order = json.loads(sys.argv[1])
print("imported", flush=True)
input()
reduction = open_reduction(
    order["method"], order["rank"], 2, fd=order["fd"], store_path=Path(order["store"]), hang_s=order["hang_s"]
)
print("open", flush=True)
if order["rank"] == 1:
    input()
reduction.barrier()
print("done", flush=True)
