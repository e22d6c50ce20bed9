/* How GPUs are connected: PCI, NVLink, and what lies between two of them. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

static void fill(const char *bus_id, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    sscanf(bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", bus_id);
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
             pci->device & 0xFF);
}

int nvmlDeviceGetPciInfo_v3(Device device, struct pci *pci) {
    char gpu[256], text[32];
    API(nvmlDeviceGetPciInfo_v3, device);
    gpu_of(device, gpu, sizeof gpu);
    int code = read_text(gpu, "pci", text, sizeof text);
    if (code == SUCCESS) fill(text, pci);
    return code;
}

/* gpus/0/nvlink/LINK holds the other end: "gpu PCI", "switch PCI", or "down". */
static int remote(Device device, unsigned link, char *kind, char *bus_id) {
    char name[32], text[64];
    if (is_mig_device(device) || link >= 36) return INVALID_ARGUMENT;
    snprintf(name, sizeof name, "nvlink/%u", link);
    if (read_text(device->path, name, text, sizeof text) != SUCCESS) return NOT_SUPPORTED;
    *bus_id = 0;
    sscanf(text, "%15s %31s", kind, bus_id);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *active) {
    char kind[16], bus_id[32];
    API(nvmlDeviceGetNvLinkState, device);
    int code = remote(device, link, kind, bus_id);
    if (code == SUCCESS) *active = strcmp(kind, "down") != 0;
    return code;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned *type) {
    char kind[16], bus_id[32];
    API(nvmlDeviceGetNvLinkRemoteDeviceType, device);
    int code = remote(device, link, kind, bus_id);
    if (code == SUCCESS) *type = !strcmp(kind, "gpu") ? 0 : !strcmp(kind, "switch") ? 2 : 0xFF;
    return code;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, struct pci *pci) {
    char kind[16], bus_id[32];
    API(nvmlDeviceGetNvLinkRemotePciInfo_v2, device);
    int code = remote(device, link, kind, bus_id);
    if (code == SUCCESS) fill(bus_id, pci);
    return code;
}

/* gpus/0/ancestor/1 holds the level (NVML_TOPOLOGY_*) at which GPU 0 meets GPU 1; without it they meet at the CPU. */
int nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned *level) {
    API(nvmlDeviceGetTopologyCommonAncestor, one);
    API(nvmlDeviceGetTopologyCommonAncestor, other);
    char name[32];
    unsigned index;
    if (is_mig_device(one) || is_mig_device(other) || one == other) return INVALID_ARGUMENT;
    sscanf(other->path, "gpus/%u", &index);
    snprintf(name, sizeof name, "ancestor/%u", index);
    if (read_unsigned(one->path, name, level) != SUCCESS) *level = 40;
    return SUCCESS;
}
