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
#include <sys/socket.h>
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

static void leave_work()
{
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
    if (argc > 1) { // before anything else: the pages are closed
        say("first", text[0]);
        return 0;
    }
    calls();
    processes();
    signals();
    atexit(last);
    leave_work();
    return 0;
}
