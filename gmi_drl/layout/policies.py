"""Several policies in one layout: which there are, and the layout as one of them sees it. Pure data."""

from collections.abc import Mapping

from gmi_drl.layout.layout import GMI, GmiGroup, Layout

TRAINERS = "trainers"
"""The name of the group of all trainers; of a policy's trainers it is `trainers-NAME`."""


def policy_names(layout: Layout) -> tuple[str, ...]:
    """The policies that GMIs of a layout have, in order of these GMIs; empty if all have the same one."""
    return tuple(dict.fromkeys(gmi.policy for gmi in layout.gmis if gmi.policy is not None))


def group_of(policy: str | None) -> str:
    """The name of the group of a policy's trainers."""
    return TRAINERS if policy is None else f"{TRAINERS}-{policy}"


def layouts_of(layout: Layout) -> dict[str | None, Layout]:
    """The layout as each policy sees it, by name; of one policy of all agents the layout itself, by None."""
    return {name: layout_of(layout, name) for name in policy_names(layout)} or {None: layout}


def layout_of(layout: Layout, policy: str, rows: tuple[int, int] = (1, 1)) -> Layout:
    """The layout as one policy sees it: ids stay, and GMIs of other policies have no roles.

    Args:
        layout: With several policies.
        policy: The name of one of them.
        rows: How many of how many rows of a world the policy acts in: actors have as many environments less.
    """
    own, of_all = rows

    def seen(gmi: GMI) -> GMI:
        if gmi.policy not in (None, policy):
            return gmi.model_copy(update={"roles": (), "num_env": 0})
        return gmi.model_copy(update={"policy": None, "num_env": gmi.num_env * own // of_all})

    devices = tuple(device.model_copy(update={"gmis": tuple(map(seen, device.gmis))}) for device in layout.devices)
    groups: Mapping[str, GmiGroup] = layout.groups
    mine = {TRAINERS: groups[group_of(policy)]} if group_of(policy) in groups else {}
    return layout.model_copy(update={"devices": devices, "groups": mine})
