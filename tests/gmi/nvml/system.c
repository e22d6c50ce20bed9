/* The library and its driver. */
#include "fake.h"

#include <stdio.h>

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    API(nvmlInitWithFlags, NULL);
    if (!is_there("", "driver")) return DRIVER_NOT_LOADED;
    count_open(1);
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    API(nvmlShutdown, NULL);
    count_open(-1);
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    switch (code) {
        case SUCCESS: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NO_PERMISSION: return "Insufficient Permissions";
        case NOT_FOUND: return "Not Found";
        case INSUFFICIENT_SIZE: return "Insufficient Size";
        case DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case GPU_IS_LOST: return "GPU is lost";
        case IN_USE: return "In use by another client";
        case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
        default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    API(nvmlSystemGetDriverVersion, NULL);
    return read_text("", "driver", version, length);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    API(nvmlSystemGetNVMLVersion, NULL);
    return read_text("", "driver", version, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    API(nvmlSystemGetCudaDriverVersion_v2, NULL);
    return read_unsigned("", "cuda", (unsigned *)version);
}

int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
