/* GPU performance monitoring and energy: percentages from the files sm_util, sm_occupancy and dram_bandwidth of a GPU,
 * or of a GPU instance gi/ID; none is 0. What two samples give is the mean of both, and 0 when they lie less than 100 ms
 * apart: "the interval between these two nvmlGpmSampleGet() API calls should be greater than 100ms due to the internal
 * sample refresh rate". Energy is that of power_mw since the machine was started.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SM_UTIL = 2, SM_OCCUPANCY = 3, DRAM_BW_UTIL = 10, METRICS_GET_VERSION = 1, SUPPORT_VERSION = 1, HOPPER = 9 };

static const struct { unsigned id; const char *file; } metrics_known[] = {
    {SM_UTIL, "sm_util"}, {SM_OCCUPANCY, "sm_occupancy"}, {DRAM_BW_UTIL, "dram_bandwidth"},
};
enum { KNOWN = sizeof metrics_known / sizeof *metrics_known };

typedef struct sample { char folder[256]; double at_s, values[KNOWN]; } *Sample;
struct support { unsigned version, is_supported; };
struct metric { unsigned id; int code; double value; const char *names[3]; };
struct metrics { unsigned version, count; Sample first, second; struct metric metrics[]; };

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int major_of(Device device) {
    char gpu[256], text[16];
    int major = 0;
    gpu_of(device, gpu, sizeof gpu);
    if (read_text(gpu, "architecture", text, sizeof text) == SUCCESS) sscanf(text, "%d", &major);
    return major;
}

int nvmlGpmQueryDeviceSupport(Device device, struct support *support) {
    API(nvmlGpmQueryDeviceSupport, device);
    if (support->version != SUPPORT_VERSION) return INVALID_ARGUMENT;
    support->is_supported = major_of(device) >= HOPPER;
    return SUCCESS;
}

int nvmlGpmSampleAlloc(Sample *sample) {
    API(nvmlGpmSampleAlloc, NULL);
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : INSUFFICIENT_RESOURCES;
}

int nvmlGpmSampleFree(Sample sample) {
    API(nvmlGpmSampleFree, NULL);
    free(sample);
    return SUCCESS;
}

static int take(Device device, const char *folder, Sample sample) {
    char text[32];
    if (major_of(device) < HOPPER) return NOT_SUPPORTED;
    snprintf(sample->folder, sizeof sample->folder, "%s", folder);
    sample->at_s = now_s();
    for (int i = 0; i < KNOWN; i++)
        sample->values[i] =
            read_text(folder, metrics_known[i].file, text, sizeof text) == SUCCESS ? strtod(text, NULL) : 0;
    return SUCCESS;
}

int nvmlGpmSampleGet(Device device, Sample sample) {
    API(nvmlGpmSampleGet, device);
    if (is_mig_device(device)) return INVALID_ARGUMENT;
    return take(device, device->path, sample);
}

int nvmlGpmMigSampleGet(Device device, unsigned gpu_instance, Sample sample) {
    char folder[300];
    API(nvmlGpmMigSampleGet, device);
    snprintf(folder, sizeof folder, "%.200s/gi/%u", device->path, gpu_instance);
    if (is_mig_device(device) || !is_there(folder, "")) return INVALID_ARGUMENT;
    return take(device, folder, sample);
}

int nvmlGpmMetricsGet(struct metrics *asked) {
    API(nvmlGpmMetricsGet, NULL);
    if (asked->version != METRICS_GET_VERSION || !asked->first || !asked->second) return INVALID_ARGUMENT;
    const struct sample *first = asked->first, *second = asked->second;
    if (!*first->folder || strcmp(first->folder, second->folder)) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < asked->count; i++) {
        struct metric *metric = &asked->metrics[i];
        metric->code = NOT_SUPPORTED;
        for (int k = 0; k < KNOWN; k++) {
            if (metrics_known[k].id != metric->id) continue;
            metric->code = SUCCESS;
            metric->value = second->at_s - first->at_s < 0.1 ? 0 : (first->values[k] + second->values[k]) / 2;
        }
    }
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(Device device, u64 *millijoules) {
    unsigned milliwatts = 0;
    API(nvmlDeviceGetTotalEnergyConsumption, device);
    if (is_mig_device(device) || major_of(device) < 7) return NOT_SUPPORTED; /* "For Volta or newer" */
    int code = read_unsigned(device->path, "power_mw", &milliwatts);
    *millijoules = (u64)(milliwatts * now_s());
    return code;
}
