/* What every function does first: it is logged, may be told to fail, and wants a library that is open.
 *
 * fail/FUNCTION, for all GPUs, or gpus/0/fail/FUNCTION, for one, holds "CODE", or "CODE TIMES" to fail so often only,
 * or "CODE TIMES SKIP" to let so many calls pass before. If there is a file "calls" each call is a line of it.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int opened; /* how often nvmlInit was called more than nvmlShutdown */

int open_now(void) { return opened; }
void count_open(int step) { opened += step; }
int privileged(void) { return is_there("", "root"); }

Device device_at(const char *path) {
    static struct device known[4096];
    static int count;
    for (int i = 0; i < count; i++)
        if (!strcmp(known[i].path, path)) return &known[i];
    if (count == 4096) abort();
    snprintf(known[count].path, sizeof known[count].path, "%s", path);
    return &known[count++];
}

int is_mig_device(Device device) { return strstr(device->path, "/gi/") != NULL; }

int gpu_of(Device device, char *out, size_t length) {
    snprintf(out, length, "%s", device->path);
    char *end = strstr(out, "/gi/");
    if (end) *end = 0;
    return SUCCESS;
}

static void log_call(const char *function, Device device) {
    char path[512];
    if (!is_there("", "calls")) return;
    FILE *file = fopen(place("", "calls", path, sizeof path), "a");
    if (!file) return;
    fprintf(file, "%s%s%s\n", function, device ? " " : "", device ? device->path : "");
    fclose(file);
}

static int told_to_fail(const char *folder, const char *function) {
    char name[128], text[64];
    int code = 0, times = -1, skip = 0;
    snprintf(name, sizeof name, "fail/%s", function);
    if (read_text(folder, name, text, sizeof text) != SUCCESS) return SUCCESS;
    sscanf(text, "%d %d %d", &code, &times, &skip);
    if (times < 0) return code;
    if (times == 0) return SUCCESS;
    snprintf(text, sizeof text, "%d %d %d", code, skip ? times : times - 1, skip ? skip - 1 : 0);
    write_text(folder, name, text);
    return skip ? SUCCESS : code;
}

int enter(const char *function, Device device) {
    char gpu[256];
    log_call(function, device);
    int code = told_to_fail("", function);
    if (code != SUCCESS) return code;
    if (!opened && strncmp(function, "nvmlInit", 8)) return UNINITIALIZED;
    if (!device) return SUCCESS;
    gpu_of(device, gpu, sizeof gpu);
    if (!is_there(gpu, "")) return GPU_IS_LOST;
    if (!is_there(device->path, "")) return INVALID_ARGUMENT; /* a MIG device that has been destroyed */
    return told_to_fail(gpu, function);
}
