"""One rank of a group whose ranks are stopped while rank 0 waits: `python frozen_worker.py '<json>'`."""

import json
import sys

from gmi_drl.comm import open_group
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.registry import class_at

order = json.loads(sys.argv[1])
method = REDUCTIONS.find(order["method"])
class_at(method.group)  # with torch, which takes its time where many import it
print("imported", flush=True)
input()
member = Membership(order["rank"], order["mapping"], hang_s=order["hang_s"])
group = open_group(method, member, Rendezvous.from_order(order["rendezvous"]))
print("open", flush=True)
if order["rank"] == 1:
    input()
group.barrier()
print("done", flush=True)
