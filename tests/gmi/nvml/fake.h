/* A fake NVML library: answers from a tree of files, so that its state outlives processes. See fake.py for the tree.
 *
 * Function names, return codes and structures are those of NVIDIA's "NVML API Reference"
 * (docs.nvidia.com/deploy/nvml-api). What is not here nvidia-ml-py reports as FUNCTION_NOT_FOUND, and a fact whose file
 * is missing as NOT_SUPPORTED, as the real library does for what a GPU cannot tell.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    UNKNOWN = 999,
};

typedef struct device *Device; /* a GPU, or a MIG device of one */

struct device {
    char path[256]; /* below $FAKE_NVML: "gpus/0", or "gpus/0/gi/1/ci/0" */
};

typedef unsigned long long u64;

/* state.c: the tree. Paths are below $FAKE_NVML; `folder` may be "". */
const char *place(const char *folder, const char *name, char *out, size_t length); /* the whole path */
int is_there(const char *folder, const char *name);
int read_text(const char *folder, const char *name, char *out, unsigned length); /* NOT_SUPPORTED without the file */
int read_number(const char *folder, const char *name, u64 *out);
int read_unsigned(const char *folder, const char *name, unsigned *out);
int write_text(const char *folder, const char *name, const char *text);
int numbered(const char *folder, unsigned *ids, unsigned most); /* folders named by numbers, ascending; their count */

/* calls.c: what every function of the API does first. */
int enter(const char *function, Device device); /* device may be NULL where the function takes none */
int open_now(void);
void count_open(int step);
Device device_at(const char *path); /* always the same handle for the same path */
int is_mig_device(Device device);
int gpu_of(Device device, char *out, size_t length); /* "gpus/0", also of a MIG device */
int privileged(void);                                /* whether the caller counts as root: the file "root" */

#define API(function, device)                    \
    do {                                         \
        int refused = enter(#function, device);  \
        if (refused != SUCCESS) return refused;  \
    } while (0)

#endif
