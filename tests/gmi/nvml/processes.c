/* Who computes on a GPU: gpus/0/processes/PID holds the bytes that it has there, gpus/0/mps_processes/PID likewise. */
#include "fake.h"

#include <stdio.h>

struct process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };

static int list(const char *folder, unsigned *count, struct process *found) {
    unsigned pids[256];
    char name[32];
    unsigned there = (unsigned)numbered(folder, pids, 256);
    if (*count < there) return *count = there, INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < there; i++) {
        found[i] = (struct process){pids[i], 0, 0xFFFFFFFF, 0xFFFFFFFF};
        snprintf(name, sizeof name, "%u", pids[i]);
        read_number(folder, name, &found[i].memory);
    }
    *count = there;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, struct process *found) {
    char folder[300];
    API(nvmlDeviceGetComputeRunningProcesses_v3, device);
    snprintf(folder, sizeof folder, "%s/processes", device->path);
    return list(folder, count, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned *count, struct process *found) {
    char folder[300];
    API(nvmlDeviceGetMPSComputeRunningProcesses_v3, device);
    snprintf(folder, sizeof folder, "%s/mps_processes", device->path);
    return list(folder, count, found);
}
