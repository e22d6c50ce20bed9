/* Changing MIG: the mode, GPU instances and compute instances. Beside the tree of mig.c it reads
 *
 *     gpus/0/mig_profiles/P    "ID NAME SLICES SIZE MEMORY_MIB SMS START...", P of NVML_GPU_INSTANCE_PROFILE_*
 *     gpus/0/mig_resets        there if a change of the mode waits for a reset of the GPU, as on Ampere
 *
 * and refuses what the real one refuses: whoever is not root, instances in use, and what has no room. Compute instances
 * begin at slices as `nvidia-smi mig -lcipp` prints them. Ids of GPU instances and UUIDs follow from the place, so what
 * is made anew at the same place has the same: NVIDIA's open kernel modules, `nvGenerateSmcUuid` in gpu_uuid.c, make a
 * UUID from the GPU, the id of the GPU instance and the place of the compute instance in it.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 16, RESET_REQUIRED = 16, PROFILES = 0x12, COMPUTE_PROFILES = 5 };

static const unsigned compute_slices[COMPUTE_PROFILES] = {1, 2, 3, 4, 7};

struct placement { unsigned start, size; };

struct profile {
    unsigned id, slices, size, memory_mib, sms, starts[MOST], count;
    char name[64];
};

static int profile_number(Device device, unsigned number, struct profile *out) {
    char folder[300], file[16], text[256];
    int used;
    snprintf(folder, sizeof folder, "%s/mig_profiles", device->path);
    snprintf(file, sizeof file, "%u", number);
    memset(out, 0, sizeof *out);
    if (read_text(folder, file, text, sizeof text) != SUCCESS) return NOT_SUPPORTED;
    sscanf(text, "%u %63s %u %u %u %u%n", &out->id, out->name, &out->slices, &out->size, &out->memory_mib, &out->sms, &used);
    for (char *rest = text + used; *rest && out->count < MOST; out->count++) out->starts[out->count] = strtoul(rest, &rest, 10);
    return SUCCESS;
}

static int profile_by(Device device, unsigned id, const char *name, struct profile *out) {
    for (unsigned number = 0; number < PROFILES; number++)
        if (profile_number(device, number, out) == SUCCESS && (name ? !strcmp(out->name, name) : out->id == id)) return SUCCESS;
    return NOT_SUPPORTED;
}

/* 0 for the whole GPU, 1 and 2 for halves, 3 to 6 for quarters, 7 to 14 for eighths. */
static unsigned id_by_place(Device device, unsigned start, unsigned size) {
    struct profile profile;
    unsigned whole = size;
    for (unsigned number = 0; number < PROFILES; number++)
        if (profile_number(device, number, &profile) == SUCCESS && profile.size > whole) whole = profile.size;
    return whole / size - 1 + start / size;
}

static unsigned id_of(Device instance) { return (unsigned)atoi(strrchr(instance->path, '/') + 1); }

static Device parent_gpu(Device instance) {
    char gpu[256];
    gpu_of(instance, gpu, sizeof gpu);
    return device_at(gpu);
}

static Device gpu_instance_of(Device compute) {
    char path[256];
    snprintf(path, sizeof path, "%s", compute->path);
    *strstr(path, "/ci/") = 0;
    return device_at(path);
}

static int children(Device parent, const char *kind, Device *out) {
    char folder[300], path[330];
    unsigned ids[MOST];
    snprintf(folder, sizeof folder, "%s/%s", parent->path, kind);
    int count = numbered(folder, ids, MOST);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%u", folder, ids[i]);
        out[i] = device_at(path);
    }
    return count;
}

static Device new_child(Device parent, const char *kind, unsigned id) {
    char folder[300], path[512], below[330];
    snprintf(folder, sizeof folder, "%s/%s", parent->path, kind);
    mkdir(place(folder, "", path, sizeof path), 0777);
    snprintf(below, sizeof below, "%s/%u", folder, id);
    mkdir(place(below, "", path, sizeof path), 0777);
    return device_at(below);
}

static void put(Device instance, const char *name, u64 number) {
    char text[32];
    snprintf(text, sizeof text, "%llu", number);
    write_text(instance->path, name, text);
}

static void removed(Device instance) {
    char command[600], path[512];
    snprintf(command, sizeof command, "rm -rf '%s'", place(instance->path, "", path, sizeof path));
    if (system(command)) abort();
}

static int has_processes(Device instance) {
    char folder[300];
    unsigned pids[MOST];
    snprintf(folder, sizeof folder, "%s/processes", instance->path);
    return numbered(folder, pids, MOST) > 0;
}

static int is_cut(Device device) {
    unsigned mode = 0;
    return read_unsigned(device->path, "mig_mode", &mode) == SUCCESS && mode;
}

/* A start for an instance of `size` slices among those that may be, beside what is taken; -1 if there is none. */
static int room(const unsigned *starts, unsigned count, unsigned size, const struct placement *taken, int others) {
    for (unsigned i = 0; i < count; i++) {
        int is_free = 1;
        for (int j = 0; j < others; j++)
            is_free &= starts[i] >= taken[j].start + taken[j].size || taken[j].start >= starts[i] + size;
        if (is_free) return (int)starts[i];
    }
    return -1;
}

int nvmlDeviceSetMigMode(Device device, unsigned mode, int *status) {
    Device instances[MOST];
    API(nvmlDeviceSetMigMode, device);
    if (!is_there(device->path, "mig_mode")) return NOT_SUPPORTED;
    if (!privileged()) return NO_PERMISSION;
    put(device, "mig_pending", mode);
    *status = has_processes(device) || children(device, "gi", instances) ? IN_USE : SUCCESS;
    if (*status == SUCCESS && (unsigned)is_cut(device) != mode && is_there(device->path, "mig_resets")) *status = RESET_REQUIRED;
    if (*status == SUCCESS) put(device, "mig_mode", mode);
    return SUCCESS;
}

struct profile_info {
    unsigned version, id, p2p, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
    u64 memory_mib;
    char name[96];
};

int nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned number, struct profile_info *info) {
    struct profile found;
    API(nvmlDeviceGetGpuInstanceProfileInfoV, device);
    if (profile_number(device, number, &found) != SUCCESS) return NOT_SUPPORTED;
    unsigned version = info->version;
    *info = (struct profile_info){.version = version, .id = found.id, .slices = found.slices, .instances = found.count, .sms = found.sms, .memory_mib = found.memory_mib};
    snprintf(info->name, sizeof info->name, "MIG %s", found.name);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned id, struct placement *out, unsigned *count) {
    struct profile found;
    API(nvmlDeviceGetGpuInstancePossiblePlacements_v2, device);
    if (profile_by(device, id, NULL, &found) != SUCCESS) return NOT_SUPPORTED;
    for (unsigned i = 0; out && i < found.count; i++) out[i] = (struct placement){found.starts[i], found.size};
    *count = found.count;
    return SUCCESS;
}

static int create(Device device, unsigned id, const struct placement *wanted, Device *made) {
    struct profile profile, other;
    struct placement taken[MOST];
    Device instances[MOST];
    char name[64];
    if (!is_cut(device)) return NOT_SUPPORTED;
    if (!privileged()) return NO_PERMISSION;
    if (profile_by(device, id, NULL, &profile) != SUCCESS) return NOT_SUPPORTED;
    int count = children(device, "gi", instances);
    for (int i = 0; i < count; i++) {
        read_text(instances[i]->path, "name", name, sizeof name);
        profile_by(device, 0, name, &other);
        read_unsigned(instances[i]->path, "start", &taken[i].start);
        taken[i].size = other.size;
        if (strstr(name, "+me") && strstr(profile.name, "+me")) return INSUFFICIENT_RESOURCES;
    }
    int allowed = !wanted;
    for (unsigned i = 0; wanted && i < profile.count; i++) allowed |= profile.starts[i] == wanted->start;
    if (!allowed) return INVALID_ARGUMENT;
    int start = wanted ? room(&wanted->start, 1, profile.size, taken, count) : room(profile.starts, profile.count, profile.size, taken, count);
    if (start < 0) return INSUFFICIENT_RESOURCES;
    *made = new_child(device, "gi", id_by_place(device, (unsigned)start, profile.size));
    write_text((*made)->path, "name", profile.name);
    put(*made, "start", (u64)start);
    put(*made, "slices", profile.slices);
    put(*made, "sms", profile.sms);
    put(*made, "memory_total", (u64)profile.memory_mib << 20);
    put(*made, "memory_used", 0);
    return SUCCESS;
}

int nvmlDeviceCreateGpuInstance(Device device, unsigned id, Device *made) {
    API(nvmlDeviceCreateGpuInstance, device);
    return create(device, id, NULL, made);
}

int nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned id, const struct placement *wanted, Device *made) {
    API(nvmlDeviceCreateGpuInstanceWithPlacement, device);
    return create(device, id, wanted, made);
}

int nvmlGpuInstanceDestroy(Device instance) {
    Device parts[MOST];
    API(nvmlGpuInstanceDestroy, instance);
    if (!privileged()) return NO_PERMISSION;
    if (children(instance, "ci", parts)) return IN_USE;
    removed(instance);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstances(Device device, unsigned id, Device *out, unsigned *count) {
    struct profile profile;
    Device instances[MOST];
    char name[64];
    API(nvmlDeviceGetGpuInstances, device);
    if (profile_by(device, id, NULL, &profile) != SUCCESS) return NOT_SUPPORTED;
    if (!privileged()) return NO_PERMISSION;
    int all = children(device, "gi", instances);
    *count = 0;
    for (int i = 0; i < all; i++)
        if (read_text(instances[i]->path, "name", name, sizeof name) == SUCCESS && !strcmp(name, profile.name)) out[(*count)++] = instances[i];
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(Device device, unsigned id, Device *found) {
    char path[300];
    API(nvmlDeviceGetGpuInstanceById, device);
    if (!privileged()) return NO_PERMISSION;
    snprintf(path, sizeof path, "%s/gi/%u", device->path, id);
    if (!is_there(path, "")) return NOT_FOUND;
    *found = device_at(path);
    return SUCCESS;
}

struct gpu_instance_info { Device device; unsigned id, profile; struct placement placement; };

int nvmlGpuInstanceGetInfo(Device instance, struct gpu_instance_info *info) {
    struct profile profile;
    char name[64];
    API(nvmlGpuInstanceGetInfo, instance);
    if (!privileged()) return NO_PERMISSION;
    Device gpu = parent_gpu(instance);
    read_text(instance->path, "name", name, sizeof name);
    int code = profile_by(gpu, 0, name, &profile);
    *info = (struct gpu_instance_info){gpu, id_of(instance), profile.id, {0, profile.size}};
    read_unsigned(instance->path, "start", &info->placement.start);
    return code;
}

struct compute_profile_info {
    unsigned version, id, slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
    char name[96];
};

static void compute_name(Device instance, unsigned slices, char *out, size_t length) {
    char name[64] = "";
    unsigned whole = 0;
    read_text(instance->path, "name", name, sizeof name);
    read_unsigned(instance->path, "slices", &whole);
    if (slices == whole) snprintf(out, length, "%s", name);
    else snprintf(out, length, "%uc.%s", slices, name);
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(Device instance, unsigned number, unsigned engines, struct compute_profile_info *info) {
    unsigned whole = 0, sms = 0;
    char name[80];
    API(nvmlGpuInstanceGetComputeInstanceProfileInfoV, instance);
    read_unsigned(instance->path, "slices", &whole);
    read_unsigned(instance->path, "sms", &sms);
    if (number >= COMPUTE_PROFILES || engines || compute_slices[number] > whole) return NOT_SUPPORTED;
    unsigned version = info->version, slices = compute_slices[number];
    *info = (struct compute_profile_info){.version = version, .id = number, .slices = slices, .instances = whole / slices, .sms = sms * slices / whole};
    compute_name(instance, slices, name, sizeof name);
    snprintf(info->name, sizeof info->name, "MIG %s", name);
    return SUCCESS;
}

/* Where compute instances of a size may begin, as `nvidia-smi mig -lcipp` prints it. */
static unsigned compute_starts(unsigned slices, unsigned whole, unsigned *starts) {
    unsigned count = 0, step = slices == 3 ? 4 : slices;
    for (unsigned start = 0; start + slices <= whole; start += step) starts[count++] = start;
    return count;
}

int nvmlGpuInstanceGetComputeInstancePossiblePlacements(Device instance, unsigned id, struct placement *out, unsigned *count) {
    unsigned whole = 0, starts[MOST];
    API(nvmlGpuInstanceGetComputeInstancePossiblePlacements, instance);
    read_unsigned(instance->path, "slices", &whole);
    if (id >= COMPUTE_PROFILES || compute_slices[id] > whole) return NOT_SUPPORTED;
    *count = compute_starts(compute_slices[id], whole, starts);
    for (unsigned i = 0; out && i < *count; i++) out[i] = (struct placement){starts[i], compute_slices[id]};
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstances(Device instance, unsigned id, Device *out, unsigned *count) {
    Device parts[MOST];
    unsigned slices;
    API(nvmlGpuInstanceGetComputeInstances, instance);
    if (!privileged()) return NO_PERMISSION;
    if (id >= COMPUTE_PROFILES) return INVALID_ARGUMENT;
    int all = children(instance, "ci", parts);
    *count = 0;
    for (int i = 0; i < all; i++)
        if (read_unsigned(parts[i]->path, "slices", &slices) == SUCCESS && slices == compute_slices[id]) out[(*count)++] = parts[i];
    return SUCCESS;
}

static int create_compute(Device instance, unsigned id, const struct placement *wanted, Device *made) {
    struct placement taken[MOST];
    Device parts[MOST];
    unsigned whole = 0, sms = 0, starts[MOST];
    char text[80];
    if (!privileged()) return NO_PERMISSION;
    read_unsigned(instance->path, "slices", &whole);
    read_unsigned(instance->path, "sms", &sms);
    if (id >= COMPUTE_PROFILES || compute_slices[id] > whole) return NOT_SUPPORTED;
    unsigned slices = compute_slices[id], count = compute_starts(slices, whole, starts);
    int others = children(instance, "ci", parts);
    for (int i = 0; i < others; i++) {
        taken[i].start = 0;
        read_unsigned(parts[i]->path, "start", &taken[i].start);
        read_unsigned(parts[i]->path, "slices", &taken[i].size);
    }
    int start = wanted ? room(&wanted->start, 1, slices, taken, others) : room(starts, count, slices, taken, others);
    if (start < 0) return INSUFFICIENT_RESOURCES;
    unsigned first = 0;
    for (int i = 0; i < others; i++) first += id_of(parts[i]) == first; /* they are by their ids, ascending */
    *made = new_child(instance, "ci", first);
    compute_name(instance, slices, text, sizeof text);
    write_text((*made)->path, "name", text);
    snprintf(text, sizeof text, "MIG-%04xbbbb-0000-0000-%04x-%012x", id_of(parent_gpu(instance)), (unsigned)start, id_of(instance));
    write_text((*made)->path, "uuid", text);
    put(*made, "start", (u64)start);
    put(*made, "slices", slices);
    put(*made, "sms", sms * slices / whole);
    return SUCCESS;
}

int nvmlGpuInstanceCreateComputeInstance(Device instance, unsigned id, Device *made) {
    API(nvmlGpuInstanceCreateComputeInstance, instance);
    return create_compute(instance, id, NULL, made);
}

int nvmlGpuInstanceCreateComputeInstanceWithPlacement(Device instance, unsigned id, const struct placement *wanted, Device *made) {
    API(nvmlGpuInstanceCreateComputeInstanceWithPlacement, instance);
    return create_compute(instance, id, wanted, made);
}

int nvmlGpuInstanceGetComputeInstanceById(Device instance, unsigned id, Device *found) {
    char path[300];
    API(nvmlGpuInstanceGetComputeInstanceById, instance);
    snprintf(path, sizeof path, "%s/ci/%u", instance->path, id);
    if (!is_there(path, "")) return NOT_FOUND;
    *found = device_at(path);
    return SUCCESS;
}

struct compute_instance_info { Device device, instance; unsigned id, profile; struct placement placement; };

int nvmlComputeInstanceGetInfo_v2(Device part, struct compute_instance_info *info) {
    unsigned slices = 0;
    API(nvmlComputeInstanceGetInfo_v2, part);
    read_unsigned(part->path, "slices", &slices);
    *info = (struct compute_instance_info){parent_gpu(part), gpu_instance_of(part), id_of(part), 0, {0, slices}};
    while (info->profile < COMPUTE_PROFILES && compute_slices[info->profile] != slices) info->profile++;
    read_unsigned(part->path, "start", &info->placement.start);
    return SUCCESS;
}

int nvmlComputeInstanceDestroy(Device part) {
    API(nvmlComputeInstanceDestroy, part);
    if (!privileged()) return NO_PERMISSION;
    if (has_processes(part)) return IN_USE;
    removed(part);
    return SUCCESS;
}
