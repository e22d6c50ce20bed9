"""What other tools take, told anew from their sources, for files that the tools themselves would refuse whole.

Both read YAML as JSON into Go structs and refuse unknown fields.
"""

import re

PROFILE = re.compile(r"([1-9]\d*c\.)?[1-9]\d*g\.[1-9]\d*gb(\+[a-z][a-z.]*)?")


def mig_parted_spec(document):
    """The configurations of NVIDIA mig-parted's `api/spec/v1/spec.go`, by name."""
    assert set(document) == {"version", "mig-configs"} and document["version"] == "v1"
    configs = document["mig-configs"]
    assert configs and all(configs.values())
    for entry in (entry for entries in configs.values() for entry in entries):
        assert {"devices", "mig-enabled"} <= set(entry) <= {"device-filter", "devices", "mig-enabled", "mig-devices"}
        assert entry["devices"] == "all" or all(type(index) is int for index in entry["devices"])
        filters = entry.get("device-filter", [])
        filters = [filters] if isinstance(filters, str) else filters
        assert all(re.fullmatch(r"0x[0-9A-F]{4}10DE", pci_id) for pci_id in filters)
        assert entry["mig-enabled"] is True and entry["mig-devices"]
        for profile, count in entry["mig-devices"].items():
            assert PROFILE.fullmatch(profile) and type(count) is int and count > 0
    return configs


def device_plugin_config(document):
    """`(MIG strategy, way of sharing, replicas)` of NVIDIA k8s-device-plugin's `api/config/v1`."""
    assert document.keys() <= {"version", "flags", "sharing"} and document["version"] == "v1"
    strategy = document["flags"].pop("migStrategy")
    assert strategy in ("none", "single", "mixed") and not document["flags"]
    if "sharing" not in document:
        return strategy, None, 1
    ((way, shared),) = document["sharing"].items()
    assert way in ("mps", "timeSlicing") and strategy == "none"  # with MPS main.go refuses `mixed`
    ((resource,),) = (shared["resources"],)
    assert set(shared) == {"resources"} and set(resource) == {"name", "replicas"}
    assert resource["name"] == "nvidia.com/gpu" and type(resource["replicas"]) is int and resource["replicas"] >= 2
    return strategy, way, resource["replicas"]
