/* Reading MIG: the mode, and the MIG devices that there are. A GPU instance is a folder gpus/0/gi/ID, a compute
 * instance of it a folder ci/ID in that; each compute instance is a MIG device.
 */
#include "fake.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
    API(nvmlDeviceGetMigMode, device);
    int code = read_unsigned(device->path, "mig_mode", current);
    *pending = code == SUCCESS ? *current : 0;
    read_unsigned(device->path, "mig_pending", pending);
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count) {
    unsigned mode;
    API(nvmlDeviceGetMaxMigDeviceCount, device);
    *count = 0; /* "Returns zero if MIG is not supported or enabled" */
    if (read_unsigned(device->path, "mig_mode", &mode) == SUCCESS && mode) {
        *count = 7;
        read_unsigned(device->path, "mig_most", count);
    }
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *found) {
    unsigned gis[MOST], cis[MOST], mode = 0, seen = 0;
    char folder[300], path[330];
    API(nvmlDeviceGetMigDeviceHandleByIndex, device);
    if (is_mig_device(device)) return INVALID_ARGUMENT;
    if (read_unsigned(device->path, "mig_mode", &mode) != SUCCESS || !mode) return NOT_SUPPORTED;
    snprintf(folder, sizeof folder, "%s/gi", device->path);
    int gi_count = numbered(folder, gis, MOST);
    for (int g = 0; g < gi_count; g++) {
        snprintf(folder, sizeof folder, "%s/gi/%u/ci", device->path, gis[g]);
        int ci_count = numbered(folder, cis, MOST);
        for (int c = 0; c < ci_count; c++, seen++) {
            if (seen != index) continue;
            snprintf(path, sizeof path, "%s/%u", folder, cis[c]);
            *found = device_at(path);
            return is_there(path, "unseen") ? NOT_FOUND : SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(Device device, unsigned *is_mig) {
    API(nvmlDeviceIsMigDeviceHandle, device);
    *is_mig = (unsigned)is_mig_device(device);
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device *device) {
    char gpu[256];
    API(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig);
    if (!is_mig_device(mig)) return INVALID_ARGUMENT;
    gpu_of(mig, gpu, sizeof gpu);
    *device = device_at(gpu);
    return SUCCESS;
}

static int id_behind(Device device, const char *word, unsigned *id) {
    char *found = strstr(device->path, word);
    if (!found) return INVALID_ARGUMENT;
    return sscanf(found + strlen(word), "%u", id) == 1 ? SUCCESS : UNKNOWN;
}

int nvmlDeviceGetGpuInstanceId(Device device, unsigned *id) {
    API(nvmlDeviceGetGpuInstanceId, device);
    return id_behind(device, "/gi/", id);
}

int nvmlDeviceGetComputeInstanceId(Device device, unsigned *id) {
    API(nvmlDeviceGetComputeInstanceId, device);
    return id_behind(device, "/ci/", id);
}

struct attributes {
    unsigned sms, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    u64 memory_mib;
};

int nvmlDeviceGetAttributes_v2(Device device, struct attributes *attributes) {
    char gpu_instance[256];
    u64 memory = 0;
    API(nvmlDeviceGetAttributes_v2, device);
    if (!is_mig_device(device)) return NOT_SUPPORTED; /* "for MIG device handles" */
    snprintf(gpu_instance, sizeof gpu_instance, "%s", device->path);
    *strstr(gpu_instance, "/ci/") = 0;
    memset(attributes, 0, sizeof *attributes);
    read_unsigned(device->path, "slices", &attributes->compute_slices);
    read_unsigned(gpu_instance, "slices", &attributes->gpu_slices);
    read_number(gpu_instance, "memory_total", &memory);
    attributes->memory_mib = memory >> 20;
    return read_unsigned(device->path, "sms", &attributes->sms);
}
