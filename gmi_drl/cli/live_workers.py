"""The rows of actors, policy workers and trainers in the live view, where they are on GMIs of their own."""

from collections.abc import Mapping, Sequence

from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import ACT, LEARN, SIMULATE, WAIT

NAMED = 4
"""GMIs that a row names; of more it says how many they are."""

OF_CHANNELS = ("sim_s", "act_s", "wait_s", "fetch_s")
OF_STREAMS = ("answers_wait_s", "requests_wait_s", "versions_wait_s")


def worker_rows(row: Row, layout: Layout) -> dict[str, Mapping[str, float]]:
    """Seconds of each phase that a kind of worker has, by its name and GMIs; empty if no role is apart.

    Those of actors are means of a rollout; a policy worker's waiting is meanwhile. Trainers have a row each.
    """
    if layout.channels is None or not all(isinstance(row.get(name), int | float) for name in OF_CHANNELS):
        return {}
    actors = [gmi for gmi in layout.gmis if "simulator" in gmi.roles]
    policies = [gmi for gmi in layout.gmis if gmi.roles == ("agent",)]
    waits_s = row["wait_s"] + row["fetch_s"]
    rows: dict[str, Mapping[str, float]] = {}
    rows[_label("actor", actors)] = {SIMULATE.name: row["sim_s"], ACT.name: row["act_s"], WAIT.name: waits_s}
    if policies and all(isinstance(row.get(name), int | float) for name in OF_STREAMS):
        rows[_label("policy", policies)] = {WAIT.name: row["requests_wait_s"] + row["versions_wait_s"]}
    for gmi_id, phases in row["gmis"].items():
        rows[f"trainer, GMI {gmi_id}"] = {name: phases[name] for name in (LEARN.name, WAIT.name)}
    return rows


def _label(name: str, gmis: Sequence[GMI]) -> str:
    if len(gmis) == 1:
        return f"{name}, GMI {gmis[0].id}"
    plural = {"actor": "actors", "policy": "policies"}[name]
    if len(gmis) > NAMED:
        return f"{len(gmis)} {plural}"
    return f"{plural}, GMIs {', '.join(str(gmi.id) for gmi in gmis)}"
