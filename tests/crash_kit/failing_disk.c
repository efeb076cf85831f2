/* Loaded into a broker (LD_PRELOAD): makes calls on files fail as a file of rules says.
 *
 * FAILING_DISK_RULES names that file. Its lines: a call (write, short or sync), an errno, how often
 * in percent, and a piece of the paths that it is about. `short` writes half. Every failure adds a
 * byte to the file that FAILING_DISK_HITS names. System calls are made directly, because the
 * functions of the library are the ones replaced here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void count_hit(void) {
    const char *path = getenv("FAILING_DISK_HITS");
    int hits = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    syscall(SYS_write, hits, "!", 1);
    syscall(SYS_close, hits);
}

/* The errno with which this call on this file is to fail, or 0. */
static int failure_of(const char *call, int number) {
    char link[64], path[4096], rules[1024], rule_call[16], piece[256], *rest;
    int error;
    double percent;

    snprintf(link, sizeof link, "/proc/self/fd/%d", number);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/')
        return 0;
    path[length] = 0;

    int file = syscall(SYS_openat, AT_FDCWD, getenv("FAILING_DISK_RULES"), O_RDONLY);
    if (file < 0)
        return 0;
    length = syscall(SYS_read, file, rules, sizeof rules - 1);
    syscall(SYS_close, file);
    rules[length > 0 ? length : 0] = 0;

    for (char *line = strtok_r(rules, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%15s %d %lf %255s", rule_call, &error, &percent, piece) == 4 &&
            strcmp(rule_call, call) == 0 && strstr(path, piece) != NULL &&
            drand48() * 100 < percent) {
            count_hit();
            return error;
        }
    }
    return 0;
}

ssize_t write(int number, const void *data, size_t size) {
    int error = failure_of("write", number);
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (size > 1 && failure_of("short", number) != 0)
        size /= 2;
    return syscall(SYS_write, number, data, size);
}

static int sync_with(long system_call, int number) {
    int error = failure_of("sync", number);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return syscall(system_call, number);
}

int fsync(int number) { return sync_with(SYS_fsync, number); }

int fdatasync(int number) { return sync_with(SYS_fdatasync, number); }
