/*
 * Shifts the wall clock of one process while it runs: LD_PRELOAD=clockshim.so CLOCKSHIM=file redis-server …
 *
 * The file holds one int64, nanoseconds in the byte order of the machine; writing to it steps the clock at once. The
 * monotonic clock stays true, as it does when an operator or NTP sets a machine's clock.
 *
 * Nothing here allocates, and until the constructor has run the clock is the true one: the memory allocator of a
 * redis-server asks for the time while the process is still being loaded, and libfaketime hangs there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none;
static const volatile int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CLOCKSHIM");
    int fd = path ? open(path, O_RDONLY) : -1;
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        abort(); /* a test that believes it moves a clock must not run on the true one */
    offset = p;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int failed = syscall(SYS_clock_gettime, clock, t);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t ns = t->tv_sec * 1000000000LL + t->tv_nsec + *offset;
    t->tv_sec = ns / 1000000000LL;
    t->tv_nsec = ns % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
