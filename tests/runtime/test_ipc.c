/* Memory handles between processes: this program starts itself again with a handle in hexadecimal. */
#define _GNU_SOURCE
#include "api.h"
#include "util.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20)

static const char *self;

static void to_hex(const cudaIpcMemHandle_t *h, char *out)
{
    for (size_t i = 0; i < sizeof *h; i++)
        sprintf(out + 2 * i, "%02x", ((const unsigned char *)h)[i]);
}

static void from_hex(const char *in, cudaIpcMemHandle_t *h)
{
    for (size_t i = 0; i < sizeof *h; i++) {
        unsigned v;
        sscanf(in + 2 * i, "%2x", &v);
        ((unsigned char *)h)[i] = (unsigned char)v;
    }
}

/* The other process: exit code 0 when all is as it should be, else the number of the check. */
static int ipc_child(const char *hex, int want, size_t bytes)
{
    cudaIpcMemHandle_t h;
    static unsigned char back[BYTES];
    unsigned char *p = NULL, *again;
    void *mine;
    struct cudaPointerAttributes a;
    from_hex(hex, &h);
    cudaError_t e = cudaIpcOpenMemHandle((void **)&p, h, cudaIpcMemLazyEnablePeerAccess);
    if ((int)e != want)
        return 1;
    if (e)
        return 0;
    if (cudaIpcOpenMemHandle((void **)&again, h, cudaIpcMemLazyEnablePeerAccess) || again != p)
        return 2; /* counted: the same pointer */
    if (cudaMemcpy(back, p, bytes, cudaMemcpyDeviceToHost) || back[0] != 0x5a || back[bytes - 1] != 0x5a)
        return 3;
    if (cudaPointerGetAttributes(&a, p + 100) || a.type != cudaMemoryTypeDevice)
        return 4;
    if (cudaFree(p) != cudaErrorInvalidValue)
        return 5; /* it is not this process's */
    if (cudaMemset(p + bytes - 16, 0x77, 17) != cudaErrorInvalidValue)
        return 6;
    if (cudaMemset(p, 0x33, 16) || cudaMemset(p + bytes - 1, 0x44, 1))
        return 7;
    if (cudaMalloc(&mine, 64) || cudaMemcpy(mine, p, 64, cudaMemcpyDeviceToDevice))
        return 8;
    if (cudaIpcCloseMemHandle(again) || cudaIpcCloseMemHandle(p))
        return 9;
    if (cudaIpcCloseMemHandle(p) != cudaErrorInvalidValue)
        return 10;
    if (cudaMemset(p, 0, 1) != cudaErrorInvalidValue)
        return 11;
    return 0;
}

/* The other side of an event: says on `fd` that it is not there yet, then waits for it in a stream. */
static int child_event(const char *hex, int fd)
{
    cudaIpcMemHandle_t h; /* of the same size */
    cudaIpcEventHandle_t eh;
    cudaEvent_t e;
    cudaStream_t s;
    from_hex(hex, &h);
    memcpy(&eh, &h, sizeof eh);
    if (cudaIpcOpenEventHandle(&e, eh) || cudaStreamCreate(&s))
        return 1;
    if (cudaEventQuery(e) != cudaErrorNotReady)
        return 2;
    if (cudaStreamWaitEvent(s, e, 0) || cudaStreamQuery(s) != cudaErrorNotReady)
        return 3;
    if (write(fd, "x", 1) != 1)
        return 4;
    if (cudaStreamSynchronize(s) || cudaEventQuery(e) || cudaEventSynchronize(e))
        return 5;
    return cudaEventDestroy(e) ? 6 : 0;
}

static int ipc_start(const cudaIpcMemHandle_t *h, cudaError_t want, size_t bytes)
{
    char hex[2 * sizeof *h + 1], code[16], size[24];
    int status;
    to_hex(h, hex);
    snprintf(code, sizeof code, "%d", (int)want);
    snprintf(size, sizeof size, "%zu", bytes);
    pid_t pid = fork();
    if (!pid) {
        execl(self, self, hex, code, size, "memory", (char *)NULL);
        _exit(99);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The handle of fresh memory that another process reads and writes. */
static char *given(size_t bytes, cudaIpcMemHandle_t *h)
{
    cudaIpcMemHandle_t same;
    unsigned char ends[2];
    char *p;
    OK(cudaMalloc((void **)&p, bytes));
    OK(cudaMemset(p, 0x5a, bytes));
    OK(cudaIpcGetMemHandle(h, p));
    OK(cudaIpcGetMemHandle(&same, p));
    assert_memory_equal(h, &same, sizeof same);
    assert_int_equal(ipc_start(h, cudaSuccess, bytes), 0);
    OK(cudaMemcpy(&ends[0], p, 1, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&ends[1], p + bytes - 1, 1, cudaMemcpyDeviceToHost));
    assert_true(ends[0] == 0x33 && ends[1] == 0x44); /* what the other process wrote */
    return p;
}

static void between_processes(void **state)
{
    cudaIpcMemHandle_t h, same;
    char *p = given(BYTES, &h);
    OK(cudaFree(p));
    assert_int_equal(ipc_start(&h, cudaErrorInvalidResourceHandle, BYTES), 0); /* it is gone */
    OK(cudaMalloc((void **)&p, BYTES));
    OK(cudaIpcGetMemHandle(&same, p));
    assert_memory_not_equal(&h, &same, sizeof h); /* a handle is not given out twice */
    OK(cudaFree(p));
}

/* Blocks that share pages: what the other process does to one leaves its neighbours alone. */
static void small_ones(void **state)
{
    static const size_t sizes[] = {300, 700, 5000, 4096, 300000};
    char *p[5], all[5000], back[5000];
    cudaIpcMemHandle_t h[5], again;
    memset(all, 0x11, sizeof all);
    for (int i = 0; i < 5; i++) {
        void *before, *after;
        OK(cudaMalloc(&before, sizeof all));
        OK(cudaMemcpy(before, all, sizeof all, cudaMemcpyHostToDevice));
        p[i] = given(sizes[i], &h[i]);
        OK(cudaMalloc(&after, 512));
        OK(cudaMemcpy(back, before, sizeof back, cudaMemcpyDeviceToHost));
        assert_memory_equal(back, all, sizeof all);
        OK(cudaFree(before));
    }
    OK(cudaFree(p[1]));
    OK(cudaMalloc((void **)&p[1], sizes[1]));
    OK(cudaIpcGetMemHandle(&again, p[1]));
    for (int i = 0; i < 5; i++)
        assert_memory_not_equal(&again, &h[i], sizeof again);
    assert_int_equal(ipc_start(&h[4], cudaSuccess, sizes[4]), 3); /* it has other contents by now */
}

static void ipc_errors(void **state)
{
    cudaIpcMemHandle_t h, junk = {{1, 2, 3}};
    char *p;
    void *q;
    OK(cudaMalloc((void **)&p, BYTES));
    OK(cudaIpcGetMemHandle(&h, p));
    EXPECT(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&q, h, cudaIpcMemLazyEnablePeerAccess));
    EXPECT(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&q, h, 0));
    EXPECT(cudaErrorInvalidResourceHandle, cudaIpcOpenMemHandle(&q, junk, cudaIpcMemLazyEnablePeerAccess));
    EXPECT(cudaErrorInvalidValue, cudaIpcGetMemHandle(&h, p + 256));
    EXPECT(cudaErrorInvalidValue, cudaIpcGetMemHandle(&h, &q));
    EXPECT(cudaErrorInvalidValue, cudaIpcGetMemHandle(NULL, p));
    EXPECT(cudaErrorInvalidValue, cudaIpcCloseMemHandle(p));
    OK(cudaMallocHost(&q, BYTES));
    EXPECT(cudaErrorInvalidValue, cudaIpcGetMemHandle(&h, q));
    OK(cudaFreeHost(q));
    OK(cudaFree(p));
}

static int gate[2];

static void wait_at_gate(void *unused)
{
    char c;
    if (read(gate[0], &c, 1) != 1)
        fputs("the gate is broken\n", stderr);
}

static void ipc_events(void **state)
{
    cudaEvent_t e, plain;
    cudaIpcEventHandle_t eh;
    cudaIpcMemHandle_t h;
    cudaStream_t s;
    char hex[2 * sizeof h + 1], fd[16], c;
    int said[2], status;
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    EXPECT(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&eh, plain));          /* not made for it */
    EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&e, cudaEventInterprocess)); /* has no time */
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess));
    OK(cudaIpcGetEventHandle(&eh, e));
    assert_true(!pipe(gate) && !pipe(said));
    OK(cudaLaunchHostFunc(s, wait_at_gate, NULL));
    OK(cudaEventRecord(e, s));
    memcpy(&h, &eh, sizeof h);
    to_hex(&h, hex);
    snprintf(fd, sizeof fd, "%d", said[1]);
    pid_t pid = fork();
    if (!pid) {
        execl(self, self, hex, "event", fd, (char *)NULL);
        _exit(99);
    }
    close(said[1]);
    ssize_t n = read(said[0], &c, 1); /* 0: it ended without a word */
    assert_int_equal(write(gate[1], "x", 1), 1);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(n, 1);
    OK(cudaEventSynchronize(e));
    memset(&eh, 5, sizeof eh);
    EXPECT(cudaErrorInvalidResourceHandle, cudaIpcOpenEventHandle(&plain, eh));
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
}

/* Puts a file of the program's under each number that one of our files of that name has.
 * How many there were. */
static int take_over(const char *name, int theirs)
{
    char link[64], path[256];
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = 0;
        if (fd != theirs && strstr(path, name)) {
            assert_int_equal(dup2(theirs, fd), fd);
            n++;
        }
    }
    return n;
}

/* A program that closes our descriptors: nothing of its own is exported, or closed. */
static void closed_by_the_program(void **state)
{
    cudaIpcMemHandle_t m;
    cudaIpcEventHandle_t h;
    cudaEvent_t e;
    void *p;
    struct stat want, st;
    OK(cudaMalloc(&p, BYTES));
    OK(cudaIpcGetMemHandle(&m, p));
    OK(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaIpcGetEventHandle(&h, e));
    int theirs = open("/proc/self/exe", O_RDONLY), taken[2];
    taken[0] = take_over("memtrace-ipc", theirs);
    taken[1] = take_over("memtrace-event", theirs);
    assert_true(taken[0] > 0 && taken[1] > 0);
    EXPECT(cudaErrorNotSupported, cudaIpcGetMemHandle(&m, p));
    EXPECT(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&h, e));
    OK(cudaMemset(p, 1, BYTES));
    OK(cudaFree(p));
    OK(cudaEventDestroy(e));
    assert_int_equal(fstat(theirs, &want), 0);
    int left = 0;
    for (int fd = 3; fd < 256; fd++)
        left += fd != theirs && !fstat(fd, &st) && st.st_ino == want.st_ino && st.st_dev == want.st_dev;
    assert_int_equal(left, taken[0] + taken[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(between_processes), cmocka_unit_test(small_ones),
                                       cmocka_unit_test(ipc_errors), cmocka_unit_test(ipc_events),
                                       cmocka_unit_test(closed_by_the_program)};
    if (argc == 4)
        return child_event(argv[1], atoi(argv[3]));
    if (argc == 5)
        return ipc_child(argv[1], atoi(argv[2]), strtoul(argv[3], NULL, 10));
    self = argv[0];
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
