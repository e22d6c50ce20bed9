/* GPUs, each a folder gpus/INDEX, and what they say of themselves. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

int nvmlDeviceGetCount_v2(unsigned *count) {
    unsigned ids[64];
    API(nvmlDeviceGetCount_v2, NULL);
    *count = (unsigned)numbered("gpus", ids, 64);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    char path[64];
    snprintf(path, sizeof path, "gpus/%u", index);
    int there = is_there(path, "");
    API(nvmlDeviceGetHandleByIndex_v2, there ? device_at(path) : NULL);
    if (!there) return INVALID_ARGUMENT;
    *device = device_at(path);
    return SUCCESS;
}

static int find(const char *fact, const char *wanted, Device *device) {
    unsigned gpus[64], gis[16], cis[16];
    char gpu[64], gi[80], ci[96], text[128];
    int gpu_count = numbered("gpus", gpus, 64);
    for (int i = 0; i < gpu_count; i++) {
        snprintf(gpu, sizeof gpu, "gpus/%u", gpus[i]);
        if (read_text(gpu, fact, text, sizeof text) == SUCCESS && !strcmp(text, wanted))
            return *device = device_at(gpu), SUCCESS;
        snprintf(gi, sizeof gi, "%s/gi", gpu);
        int gi_count = numbered(gi, gis, 16);
        for (int g = 0; g < gi_count; g++) {
            snprintf(gi, sizeof gi, "%s/gi/%u/ci", gpu, gis[g]);
            int ci_count = numbered(gi, cis, 16);
            for (int c = 0; c < ci_count; c++) {
                snprintf(ci, sizeof ci, "%s/%u", gi, cis[c]);
                if (read_text(ci, fact, text, sizeof text) == SUCCESS && !strcmp(text, wanted))
                    return *device = device_at(ci), SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    API(nvmlDeviceGetHandleByUUID, NULL);
    return find("uuid", uuid, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *device) {
    API(nvmlDeviceGetHandleByPciBusId_v2, NULL);
    return find("pci", bus_id, device);
}

int nvmlDeviceGetName(Device device, char *name, unsigned length) {
    char gpu[256], profile[64], whole[256];
    API(nvmlDeviceGetName, device);
    gpu_of(device, gpu, sizeof gpu);
    int code = read_text(gpu, "name", whole, sizeof whole);
    if (code != SUCCESS) return code;
    if (is_mig_device(device) && read_text(device->path, "name", profile, sizeof profile) == SUCCESS)
        snprintf(whole + strlen(whole), sizeof whole - strlen(whole), " MIG %s", profile);
    if (strlen(whole) >= length) return INSUFFICIENT_SIZE;
    strcpy(name, whole);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned length) {
    API(nvmlDeviceGetUUID, device);
    return read_text(device->path, "uuid", uuid, length);
}

int nvmlDeviceGetIndex(Device device, unsigned *index) {
    API(nvmlDeviceGetIndex, device);
    if (is_mig_device(device)) return INVALID_ARGUMENT;
    return sscanf(device->path, "gpus/%u", index) == 1 ? SUCCESS : UNKNOWN;
}

struct memory { u64 total, free, used; };

/* Of a GPU in MIG mode only root is told; of its MIG devices all are. */
int nvmlDeviceGetMemoryInfo(Device device, struct memory *memory) {
    unsigned mig = 0;
    char gpu_instance[256];
    API(nvmlDeviceGetMemoryInfo, device);
    const char *folder = device->path;
    if (is_mig_device(device)) {
        snprintf(gpu_instance, sizeof gpu_instance, "%s", device->path);
        *strstr(gpu_instance, "/ci/") = 0;
        folder = gpu_instance;
    } else if (read_unsigned(folder, "mig_mode", &mig) == SUCCESS && mig && !privileged()) {
        return NO_PERMISSION;
    }
    memory->used = 0;
    read_number(folder, "memory_used", &memory->used);
    int code = read_number(folder, "memory_total", &memory->total);
    memory->free = memory->total - memory->used;
    return code;
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    char gpu[256], text[16];
    API(nvmlDeviceGetCudaComputeCapability, device);
    gpu_of(device, gpu, sizeof gpu);
    int code = read_text(gpu, "architecture", text, sizeof text);
    if (code == SUCCESS && sscanf(text, "%d.%d", major, minor) != 2) return UNKNOWN;
    return code;
}

int nvmlDeviceGetNumGpuCores(Device device, unsigned *cores) {
    API(nvmlDeviceGetNumGpuCores, device);
    if (is_mig_device(device)) return NOT_SUPPORTED;
    return read_unsigned(device->path, "cores", cores);
}

int nvmlDeviceGetComputeMode(Device device, unsigned *mode) {
    API(nvmlDeviceGetComputeMode, device);
    if (is_mig_device(device)) return NOT_SUPPORTED;
    return read_unsigned(device->path, "compute_mode", mode);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) {
    API(nvmlDeviceGetPowerUsage, device);
    if (is_mig_device(device)) return NOT_SUPPORTED;
    return read_unsigned(device->path, "power_mw", milliwatts);
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(Device device, struct utilization *rates) {
    unsigned mig = 0;
    API(nvmlDeviceGetUtilizationRates, device);
    if (is_mig_device(device) || (read_unsigned(device->path, "mig_mode", &mig) == SUCCESS && mig))
        return NOT_SUPPORTED; /* "not currently supported for MIG-enabled GPUs" */
    rates->memory = 0;
    read_unsigned(device->path, "utilization_memory", &rates->memory);
    return read_unsigned(device->path, "utilization_gpu", &rates->gpu);
}

/* CPUs near the GPU: "numa_cpus" is a mask of the first 64. */
int nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long *mask) {
    u64 first;
    API(nvmlDeviceGetCpuAffinity, device);
    int code = read_number(device->path, "numa_cpus", &first);
    if (code != SUCCESS) return code;
    memset(mask, 0, words * sizeof *mask);
    if (words) mask[0] = first;
    return SUCCESS;
}
