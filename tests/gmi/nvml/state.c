/* The tree of files below $FAKE_NVML. */
#include "fake.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *place(const char *folder, const char *name, char *out, size_t length) {
    const char *root = getenv("FAKE_NVML");
    snprintf(out, length, "%s/%s%s%s", root ? root : "/nonexistent", folder, *folder ? "/" : "", name);
    return out;
}

int is_there(const char *folder, const char *name) {
    char path[512];
    return access(place(folder, name, path, sizeof path), F_OK) == 0;
}

int read_text(const char *folder, const char *name, char *out, unsigned length) {
    char path[512], text[512] = "";
    FILE *file = fopen(place(folder, name, path, sizeof path), "r");
    if (!file) return NOT_SUPPORTED;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    while (got && isspace((unsigned char)text[got - 1])) text[--got] = 0;
    if (got >= length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

int read_number(const char *folder, const char *name, u64 *out) {
    char text[64];
    int code = read_text(folder, name, text, sizeof text);
    if (code == SUCCESS) *out = strtoull(text, NULL, 0);
    return code;
}

int read_unsigned(const char *folder, const char *name, unsigned *out) {
    u64 number;
    int code = read_number(folder, name, &number);
    if (code == SUCCESS) *out = (unsigned)number;
    return code;
}

int write_text(const char *folder, const char *name, const char *text) {
    char path[512], new[520];
    snprintf(new, sizeof new, "%s.new", place(folder, name, path, sizeof path));
    FILE *file = fopen(new, "w");
    if (!file) return UNKNOWN;
    fputs(text, file);
    fclose(file);
    return rename(new, path) ? UNKNOWN : SUCCESS; /* whoever reads meanwhile sees the one or the other */
}

static int ascending(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

int numbered(const char *folder, unsigned *ids, unsigned most) {
    char path[512];
    unsigned count = 0;
    DIR *listing = opendir(place(folder, "", path, sizeof path));
    if (!listing) return 0;
    for (struct dirent *entry; (entry = readdir(listing)) && count < most;)
        if (isdigit((unsigned char)entry->d_name[0])) ids[count++] = (unsigned)atoi(entry->d_name);
    closedir(listing);
    qsort(ids, count, sizeof *ids, ascending);
    return (int)count;
}
