/* Process exit with the last thread, after main has called pthread_exit. */
#include "last.h"
#include "base/thread.h"
#include "base/fork.h"
#include <cpuid.h>
#include <dirent.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 10000000
#define SLEEPERS 64u /* most threads of the program that are looked at each time */
#define EMULATOR 4u  /* most threads that qemu may have before the program begins: usually one */

struct own {
    pid_t thread;
    struct own *next;
};
static _Thread_local struct own self;
static struct own *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static pthread_key_t key;
static _Atomic pid_t waiting; /* thread that waits for the runtime, or 0 */
static pid_t emulator[EMULATOR];
static unsigned nemulator;

static pid_t thread_id(void)
{
    return (pid_t)syscall(SYS_gettid);
}

void mt_last_ours(void)
{
    self.thread = thread_id();
    pthread_mutex_lock(&lock);
    self.next = all;
    all = &self;
    pthread_mutex_unlock(&lock);
}

void mt_last_ours_end(void)
{
    pthread_mutex_lock(&lock);
    for (struct own **o = &all; *o; o = &(*o)->next)
        if (*o == &self) {
            *o = self.next;
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* Returns 1 under qemu, whose own threads are in the program's list and existed before it. */
static int last_emulated(void)
{
    unsigned a, word[3];
    __cpuid(0x40000000, a, word[0], word[1], word[2]);
    return memcmp(word, "TCGTCGTCGTCG", sizeof word) == 0;
}

static void last_look(void)
{
    DIR *d = last_emulated() ? opendir("/proc/self/task") : NULL;
    for (struct dirent *e; d && nemulator < EMULATOR && (e = readdir(d));) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread > 0 && thread != thread_id())
            emulator[nemulator++] = thread;
    }
    if (d)
        closedir(d);
}

static int last_is_ours(pid_t thread)
{
    for (unsigned i = 0; i < nemulator; i++)
        if (emulator[i] == thread)
            return 1;
    pthread_mutex_lock(&lock);
    const struct own *o = all;
    while (o && o->thread != thread)
        o = o->next;
    pthread_mutex_unlock(&lock);
    return o != NULL;
}

/* Returns 1 for a thread that waits in a futex for as long as it takes. */
static int last_sleeps(pid_t thread)
{
    char path[64];
    unsigned long number = 0, address, what, value, time = 1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
    FILE *f = fopen(path, "re");
    int n = f ? fscanf(f, "%lu %lx %lx %lx %lx", &number, &address, &what, &value, &time) : 0;
    if (f)
        fclose(f);
    what &= FUTEX_CMD_MASK;
    return n == 5 && number == SYS_futex && !time && (what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET);
}

/* but: a thread that does not matter, or 0 */
static int last_others_sleep(pid_t but)
{
    unsigned left = SLEEPERS;
    int sleep = 1;
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *e; d && sleep && (e = readdir(d));) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread > 0 && thread != thread_id() && thread != but && !last_is_ours(thread))
            sleep = left && left-- && last_sleeps(thread);
    }
    if (d)
        closedir(d);
    return d && sleep;
}

int mt_last_asleep(void)
{
    return last_others_sleep(waiting);
}

void mt_last_waits(int on)
{
    waiting = on ? thread_id() : 0;
}

int mt_last_alone(void)
{
    struct stat st;
    nlink_t threads = 3; /* ".", "..", and a folder for each thread */
    pthread_mutex_lock(&lock);
    for (const struct own *o = all; o; o = o->next)
        threads++;
    pthread_mutex_unlock(&lock);
    return !stat("/proc/self/task", &st) && (st.st_nlink == threads || last_others_sleep(0));
}

/* Returns 1 for a dead thread: the first thread stays in the list, dead, while others exist. */
static int is_dead(pid_t thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *f = fopen(path, "re");
    if (!f)
        return 1;
    const char *line = fgets(text, sizeof text, f), *state = line ? strrchr(line, ')') : NULL;
    fclose(f);
    return state && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

struct look {
    uint64_t threads, sum; /* number of threads in the list, and sum of their ids */
    int others;            /* a thread of the program is alive, or unknown */
};

static struct look last_list(void)
{
    struct look l = {0};
    DIR *d = opendir("/proc/self/task");
    l.others = !d;
    for (const struct dirent *e; d && !l.others && (e = readdir(d));) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        l.threads += thread > 0;
        l.sum += (uint64_t)thread;
        l.others = thread > 0 && !last_is_ours(thread) && !is_dead(thread);
    }
    if (d)
        closedir(d);
    return l;
}

/* Waits for the last thread. If a thread ends while the list is read, the kernel may omit living threads
 * after it: a list is trusted only if the next one is equal. */
static void *last_watch(void *unused)
{
    const struct timespec step = {0, LOOK_NS};
    mt_last_ours();
    struct look now = {.others = 1}, before;
    do {
        nanosleep(&step, NULL);
        before = now;
        now = last_list();
    } while (now.others || before.others || now.threads != before.threads || now.sum != before.sum);
    exit(0);
    return unused;
}

/* Runs in the first thread, which ends while the process continues. */
static void main_ends(void *unused)
{
    (void)unused;
    mt_base_thread_start(NULL, 0, last_watch, NULL);
}

__attribute__((constructor)) static void open_key(void)
{
    if (getpid() != thread_id() || pthread_key_create(&key, main_ends))
        return;
    pthread_setspecific(key, &key);
    last_look();
}
