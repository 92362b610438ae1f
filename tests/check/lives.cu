// Does what a closed page, a signal handler or a dispatched system call could break, while a kernel has not
// been waited for. Prints what it finds, which is the same in any run.
#include <cuda_runtime.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void fill(char *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = 'a' + i % 26;
}

constexpr int N = 1 << 16;
static char *text, *extra, *hole; // text: written by a kernel that nobody has waited for; hole: no access
static int ends[2], tally;

static bool within; // a host function, in which no launch is allowed
static void leave_work()
{
    if (!within)
        fill<<<1, 128>>>(text, N);
}
static unsigned sum(const char *p, int n)
{
    unsigned s = 0;
    for (int i = 0; i < n; i++)
        s = s * 31 + (unsigned char)p[i];
    return s;
}
static void say(const char *what, long value)
{
    printf("%s: %ld\n", what, value);
}

// ---- system calls ----

static void calls()
{
    iovec v[2] = {{text, 100}, {text + 5000, 100}};
    leave_work();
    long n = writev(ends[1], v, 2);
    leave_work();
    n = n * 1000 + readv(ends[0], v, 2);
    say("writev, readv", n);
    int pair[2];
    leave_work();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        abort();
    leave_work();
    n = send(pair[0], text + 26 * 472, 100, 0); // across a border of pages, and equal to the first 100
    leave_work();
    msghdr m = {};
    m.msg_iov = v;
    m.msg_iovlen = 2;
    n = n * 1000 + recvmsg(pair[1], &m, 0);
    say("send, recvmsg", n);
    leave_work();
    FILE *f = tmpfile();
    fwrite(text, 1, N, f);
    rewind(f);
    leave_work();
    n = (long)fread(text, 1, N, f);
    fclose(f);
    say("fwrite, fread", n + sum(text, N));
    leave_work();
    say("mincore", mincore(text, 4096, (unsigned char *)extra));
    leave_work();
    say("path", access(text, R_OK));
}

// The kernel fills part of an array whose end is closed.
static void halves()
{
    char *p = (char *)aligned_alloc(4096, 32768);
    cudaHostRegister(p + 16384, 16384, 0);
    leave_work();
    say("getrandom", syscall(SYS_getrandom, p, 20000, 0));
    leave_work();
    say("madvise", madvise(p + 12288, 8192, MADV_NORMAL));
    cudaDeviceSynchronize();
    cudaHostUnregister(p + 16384);
    free(p);
}

// ---- processes and threads ----

static void *other(void *p)
{
    return (void *)(write(ends[1], p, 1000) + (long)sum(text, N));
}
static void processes()
{
    int status = 0;
    char path[] = "/bin/true";
    char *words[] = {path, nullptr};
    pid_t pid;
    pthread_t t;
    void *r;
    fflush(stdout);
    leave_work();
    if (!(pid = fork()))
        _exit(sum(text, N) % 100);
    waitpid(pid, &status, 0);
    say("fork", WEXITSTATUS(status));
    leave_work();
    if (posix_spawn(&pid, path, nullptr, nullptr, words, nullptr))
        abort();
    waitpid(pid, &status, 0);
    say("spawn", status);
    leave_work();
    say("system", system("exit 3") / 256);
    leave_work();
    pthread_create(&t, nullptr, other, text);
    pthread_join(t, &r);
    say("thread", (long)r + read(ends[0], extra, 1000));
}

// ---- signals ----

static sigjmp_buf back;
static void jump(int, siginfo_t *i, void *)
{
    tally += i->si_code > 0;
    siglongjmp(back, 1);
}
static void open_up(int, siginfo_t *i, void *)
{
    tally += 10;
    mprotect(i->si_addr, 4096, PROT_READ | PROT_WRITE);
}
static void count(int)
{
    tally++;
    text[7] = 'a' + 7;
    if (write(ends[1], text, 10) == 10 && read(ends[0], text, 10) == 10)
        tally++;
}
static void handle(int sig, void (*f)(int, siginfo_t *, void *), bool all)
{
    struct sigaction a = {};
    a.sa_sigaction = f;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    all ? sigfillset(&a.sa_mask) : sigemptyset(&a.sa_mask);
    sigaction(sig, &a, nullptr);
}
static void count_info(int sig, siginfo_t *, void *)
{
    count(sig);
}

// Reads *p; its unwind tables say that its caller's frame is at `wrong`.
extern "C" int peek(const void *p, const void *wrong);
#ifndef __CUDA_ARCH__
__asm__(
    ".pushsection .text\n.globl peek\n.type peek, @function\npeek:\n.cfi_startproc\n.cfi_def_cfa %rsi, 8\n"
    "movl (%rdi), %eax\nret\n.cfi_endproc\n.size peek, . - peek\n.popsection\n");
#endif
static void frames()
{
    leave_work();
    say("peek", peek(text, (void *)8) == *(int *)text);
}

// A handler on a stack with room for itself alone; below it there is nothing.
static void stacks()
{
    size_t bytes = getauxval(51 /* AT_MINSIGSTKSZ */) + 1024;
    char *room = (char *)mmap(nullptr, 4096 + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    stack_t s = {}, none = {};
    mprotect(room, bytes, PROT_READ | PROT_WRITE);
    s.ss_sp = room, s.ss_size = bytes;
    none.ss_flags = SS_DISABLE;
    sigaltstack(&s, nullptr);
    handle(SIGALRM, count_info, false);
    itimerval once = {{0, 0}, {0, 30000}};
    tally = 0;
    setitimer(ITIMER_REAL, &once, nullptr);
    leave_work();
    while (*(volatile int *)&tally < 2) // no system call opens the pages
        ;
    say("small stack", tally);
    sigaltstack(&none, nullptr);
}

static void touch_all(int)
{
    tally++;
    for (int i = 0; i < N; i += 4096)
        text[i] = extra[i] = 'a' + i % 26; // as the kernel does
}
// Signals at any moment, also while pages are being opened and closed.
static void storm()
{
    struct sigaction a = {};
    itimerval often = {{0, 20}, {0, 20}}, never = {};
    signal(SIGSEGV, SIG_DFL);
    a.sa_handler = touch_all;
    sigaction(SIGALRM, &a, nullptr);
    tally = 0;
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; i < 20000 && tally < 20000; i++) {
        leave_work();
        extra[i % N] = text[i % N];
        text[i % N] = 'a' + i % N % 26;
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    say("storm", tally > 0);
}

static void signals()
{
    handle(SIGSEGV, jump, false);
    leave_work();
    if (!sigsetjmp(back, 1))
        *hole = 1;
    say("fault and jump", tally);
    leave_work();
    handle(SIGSEGV, open_up, false);
    leave_work();
    *hole = 2;
    say("fault and mend", tally + *hole);
    leave_work();
    handle(SIGSEGV, count_info, false);
    leave_work();
    kill(getpid(), SIGSEGV);
    say("sent", tally);
    handle(SIGUSR1, count_info, false);
    leave_work();
    raise(SIGUSR1);
    handle(SIGUSR1, count_info, true); // all blocked in the handler
    leave_work();
    raise(SIGUSR1);
    say("raised", tally);
    handle(SIGUSR1, count_info, false); // or nothing more would be watched
    sigset_t s;
    sigfillset(&s);
    leave_work();
    sigprocmask(SIG_BLOCK, &s, nullptr);
    long n = sum(text, 100);
    leave_work();
    n += sum(text, 100);
    sigprocmask(SIG_UNBLOCK, &s, nullptr);
    say("blocked", n);
    handle(SIGALRM, count_info, false);
    itimerval often = {{0, 500}, {0, 500}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    tally = 0;
    while (tally < 100) {
        leave_work();
        for (int i = 0; i < 20; i++) {
            n += text[i * 4096 % N] != 0;
            extra[i] = text[i];
            if (i % 5 == 0)
                usleep(1);
        }
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    say("timer", n >= 0);
}

// What Linux says of the memory and of a handler for SIGSYS.
static void closed()
{
    char line[256], rights[5];
    unsigned long from, to, caught = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && from <= (unsigned long)text &&
            (unsigned long)text < to)
            printf("memory: %.3s\n", rights);
    fclose(f);
    f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "SigCgt: %lx", &caught);
    printf("handler: %lx\n", caught & 1ul << (SIGSYS - 1));
}

// ---- the same in host functions ----

static void first_call(void *)
{
    say("write", write(ends[1], text, 100) + read(ends[0], text + 26, 100));
}
static void first_thread(void *)
{
    pthread_t t;
    void *r;
    pthread_create(&t, nullptr, other, text);
    pthread_join(t, &r);
    say("thread", (long)r + read(ends[0], extra, 1000));
}
static void first_child(void *)
{
    int status = 0;
    pid_t pid = fork();
    if (!pid)
        _exit(sum(text, N) % 100);
    waitpid(pid, &status, 0);
    say("fork", WEXITSTATUS(status));
}
static void first_jump(void *)
{
    if (!sigsetjmp(back, 1))
        *hole = 1;
    say("fault and jump", tally + text[0]);
}
static void first_signals(void *) // which another thread gets
{
    itimerval often = {{0, 50}, {0, 50}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; *(volatile int *)&tally < 300; i++)
        extra[i % N] = text[i % N];
    setitimer(ITIMER_REAL, &never, nullptr);
}
static void first_long(void *) // the host goes on meanwhile
{
    usleep(2500000);
    say("long", sum(text, N));
}
static void all_of(void *)
{
    calls();
    processes();
    frames();
}
static void functions()
{
    struct sigaction a = {};
    a.sa_handler = touch_all;
    sigaction(SIGALRM, &a, nullptr);
    handle(SIGSEGV, jump, false);
    within = true;
    for (cudaHostFn_t f :
         {first_call, first_thread, first_child, first_jump, first_signals, first_long, all_of}) {
        fflush(stdout);
        tally = 0;
        cudaLaunchHostFunc(nullptr, f, nullptr);
        long meanwhile =
            f == first_long ? write(ends[1], text, 100) + read(ends[0], extra, 100) + sum(text, N) : 0;
        cudaDeviceSynchronize();
        say("meanwhile", meanwhile);
    }
}

static void last()
{
    printf("at exit: %u\n", sum(text, N));
}

int main(int argc, char **argv)
{
    cudaMallocHost((void **)&text, N);
    cudaMallocManaged((void **)&extra, N);
    hole = (char *)mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pipe(ends))
        return 2;
    leave_work();
    cudaDeviceSynchronize(); // from now on the kernel changes nothing
    leave_work();
    if (argc > 1 && strcmp(argv[1], "functions") == 0) {
        functions();
        return 0;
    }
    if (argc > 1) { // before anything else: the pages are closed
        strcmp(argv[1], "closed") ? say("first", text[0]) : closed();
        return 0;
    }
    calls();
    halves();
    processes();
    frames();
    signals();
    stacks();
    storm();
    atexit(last);
    leave_work();
    return 0;
}
