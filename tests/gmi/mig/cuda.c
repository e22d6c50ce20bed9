/* A stand-in for libcuda.so.1, as far as MIG is concerned: whoever makes a context is a process on the MIG device that its
 * CUDA_VISIBLE_DEVICES names, which the fake NVML library lists (tests/gmi/nvml/fake.py) until it ends.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char mine[512];

static int names(const char *file, const char *uuid) {
    char text[128] = {0};
    FILE *opened = fopen(file, "r");
    if (opened == NULL) return 0;
    int same = fscanf(opened, "%127s", text) == 1 && strcmp(text, uuid) == 0;
    fclose(opened);
    return same;
}

int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    char pattern[400];
    glob_t found;
    const char *uuid = getenv("CUDA_VISIBLE_DEVICES"), *root = getenv("FAKE_NVML");
    *context = mine;
    if (device != 0 || uuid == NULL || root == NULL) return 100;
    snprintf(pattern, sizeof pattern, "%s/gpus/*/gi/*/ci/*/uuid", root);
    if (glob(pattern, 0, NULL, &found)) return 100;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (!names(found.gl_pathv[i], uuid)) continue;
        int length = (int)(strlen(found.gl_pathv[i]) - strlen("uuid"));
        snprintf(mine, sizeof mine, "%.*sprocesses", length, found.gl_pathv[i]);
        mkdir(mine, 0777);
        snprintf(mine + strlen(mine), 32, "/%d", (int)getpid());
        fclose(fopen(mine, "w"));
    }
    globfree(&found);
    return *mine ? 0 : 100;
}

int cuCtxSetCurrent(void *context) { return context == mine ? 0 : 201; }

int cuCtxSynchronize(void) { return 0; }

int cuGetErrorName(int code, const char **name) {
    *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}

__attribute__((destructor)) static void end(void) {
    if (*mine) unlink(mine);
}
