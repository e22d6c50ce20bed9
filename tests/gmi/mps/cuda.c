/* A stand-in for libcuda.so.1, as far as a client of MPS is concerned: a context is a connection to the server of the
 * stand-in for MPS (server_program.py), made by way of the daemon. As CUDA does, it says nothing where there is no daemon, and
 * goes on without MPS. A launch puts something in flight, which a wait for the context ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int server = -1;

static int connect_to(const char *name) {
    const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (pipes == NULL || snprintf(place.sun_path, sizeof place.sun_path, "%s/%s", pipes, name) >= (int)sizeof place.sun_path)
        return -1;
    int line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line >= 0 && connect(line, (struct sockaddr *)&place, sizeof place) == 0)
        return line;
    close(line);
    return -1;
}

/* What the other side answers; empty if it does not. */
static const char *answer_to(int line, const char *question) {
    static __thread char answer[64];
    memset(answer, 0, sizeof answer);
    if (line < 0 || write(line, question, strlen(question)) < 0)
        return "";
    while (read(line, answer, sizeof answer - 1) < 0 && errno == EINTR) /* by a signal that Python hears of later */
        ;
    return answer;
}

static int asked(int line, const char *question, const char *wanted) {
    return strcmp(answer_to(line, question), wanted) == 0;
}

static const char *or_none(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? "none" : value;
}

int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    char question[256];
    *context = &server;
    if (server >= 0 || device != 0)
        return device;
    int daemon = connect_to("control");
    const char *said = answer_to(daemon, "client");
    int is_busy = strcmp(said, "busy") == 0;
    if (strcmp(said, "server") == 0) {
        server = connect_to("server");
        snprintf(question, sizeof question, "attach %s %s", or_none("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
                 or_none("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
        if (!asked(server, question, "done"))
            server = -1;
    }
    if (daemon >= 0)
        close(daemon);
    return is_busy ? 807 : 0;
}

int cuCtxSetCurrent(void *context) { return context == &server ? 0 : 201; }

int cuLaunchKernel(void) { return server < 0 || asked(server, " launch", "done") ? 0 : 805; }

int cuCtxSynchronize(void) { return server < 0 || asked(server, " synchronize", "done") ? 0 : 805; }

int cuGetErrorName(int code, const char **name) {
    *name = code == 805 ? "CUDA_ERROR_MPS_CONNECTION_FAILED" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
