/* Programs for the made-up machine: "inc N TOTAL", "cas N TOTAL", "mat", "insn",
 * "parent", "fork", "exec", "fault". */
#include "machine.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <sys/syscall.h>

using namespace LEVEL_BASE;

static fake_img image = {0x401000, 0x401fff, TRUE}, library = {0x500000, 0x500fff, FALSE};
static fake_rtn *last;

static RTN routine(IMG img, ADDRINT address, const char *name)
{
    fake_rtn *r = new fake_rtn;
    r->address = address;
    r->name = name;
    (last ? last->next : img->first) = r;
    last = r;
    return r;
}

static INS make(ADDRINT address, std::vector<fake_memop> memops, const char *text = "?")
{
    fake_ins *i = new fake_ins;
    i->address = address;
    i->text = text;
    i->memops = memops;
    return i;
}

/* A call instruction of this program: pushes the address behind it, then the routine begins. */
static void call(cpu &p, RTN r, ADDRINT a0 = 0, ADDRINT a1 = 0, ADDRINT a2 = 0)
{
    static INS push = [] {
        INS i = make(0x401000, {{FALSE, TRUE, 8}}, "call");
        i->branch = TRUE;
        return i;
    }();
    p.ea[0] = p.c.reg[REG_STACK_PTR] - 8;
    machine_execute(p, push, [] {});
    machine_enter(p, r, a0, a1, a2);
}

/* ---- inc, cas ---- */

static volatile uint64_t counter[8];

static void one(cpu &p, INS load, INS change, bool swaps, uint64_t *count, uint64_t *even, uint64_t *fails,
                uint64_t stop)
{
    uint64_t before = 0, seen = 0;
    do {
        if (swaps) {
            p.ea[0] = (ADDRINT)counter;
            machine_execute(p, load, [&] { seen = __atomic_load_n(counter, __ATOMIC_RELAXED); });
        }
        for (bool done = false; !done;) {
            p.ea[0] = (ADDRINT)counter;
            machine_execute(p, change, [&] {
                done = true;
                if (!swaps)
                    before = __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
                else
                    done = __atomic_compare_exchange_n(counter, &seen, seen + 1, 0, __ATOMIC_SEQ_CST,
                                                       __ATOMIC_SEQ_CST);
                p.c.reg[REG_GFLAGS] = done ? 0x246 : 0x202;
            });
            *fails += !done;
        }
        if (swaps)
            before = seen;
        *even += before % 2 == 0;
        if (++*count % 50 == 0)
            machine_syscall(p, SYS_sched_yield, 0, 0, 0, 0);
        if (*count % 70 == 0)
            machine_context_change(p);
    } while (before < stop);
}

static void share(int argc, char **argv, bool swaps)
{
    uint64_t threads = strtoull(argv[1], NULL, 10), total = strtoull(argv[2], NULL, 10);
    RTN start = routine(&image, 0x401100, "share_start"), name = routine(&image, 0x401110, "share_thread"),
        finish = routine(&image, 0x401120, "share_finish"),
        number = routine(&image, 0x401130, "mt_register_thread"),
        begin = routine(&image, 0x401140, "mt_start_roi"), end = routine(&image, 0x401150, "mt_end_roi");
    INS load = make(0x401200, {{TRUE, FALSE, 8}}), change = make(0x401204, {{TRUE, TRUE, 8}});
    change->opcode = swaps ? XED_ICLASS_CMPXCHG_LOCK : XED_ICLASS_OTHER;
    machine_load(&image);
    std::vector<uint64_t> count(threads), even(threads), fails(threads);
    machine_thread(0, [&](cpu &p) {
        call(p, start, (ADDRINT)counter, threads, total);
        machine_return(p, 0);
        call(p, begin);
        machine_return(p, 0);
        std::vector<std::thread> all;
        std::atomic<uint64_t> here{0};
        for (uint64_t i = 0; i < threads; i++)
            all.emplace_back([&, i] {
                machine_thread((THREADID)i + 1, [&](cpu &q) {
                    call(q, number, i);
                    machine_return(q, 0);
                    call(q, name, i);
                    machine_return(q, 0);
                    for (here++; here != threads;)
                        sched_yield();
                    one(q, load, change, swaps, &count[i], &even[i], &fails[i], total - threads);
                });
            });
        for (std::thread &t : all)
            t.join();
        call(p, end);
        machine_return(p, 0);
        call(p, finish, counter[0]);
        machine_return(p, counter[0]);
    });
    for (uint64_t i = 0; i < threads; i++) {
        printf("thread %lu\t%lu\t%lu", i, count[i], even[i]);
        if (swaps)
            printf("\t%lu", fails[i]);
        putchar('\n');
    }
}

/* ---- mat: all that allocates, and accesses with known places ---- */

static void touch(cpu &p, ADDRINT ip, ADDRINT a, bool writes, UINT32 size = 4)
{
    INS i = make(ip, {{!writes, writes, size}});
    p.ea[0] = a;
    machine_execute(p, i, [] {});
}

static void mat()
{
    RTN f_malloc = routine(&image, 0x401100, "malloc"), f_calloc = routine(&image, 0x401110, "calloc"),
        f_realloc = routine(&image, 0x401120, "realloc"), f_free = routine(&image, 0x401130, "free"),
        f_posix = routine(&image, 0x401140, "posix_memalign"), f_new = routine(&image, 0x401150, "_Znwm"),
        f_delete = routine(&image, 0x401160, "_ZdlPv"), work = routine(&image, 0x401170, "work");
    machine_load(&image);
    machine_load(&library);
    machine_thread(0, [&](cpu &p) {
        call(p, f_malloc, 100);
        machine_return(p, 0x10000);
        touch(p, 0x401200, 0x10000, true);
        touch(p, 0x401204, 0x10000 + 99, false, 1);
        touch(p, 0x401208, 0x10000 + 100, false, 1); /* after it */
        call(p, f_realloc, 0x10000, 50);
        machine_return(p, 0x20000);         /* moved */
        touch(p, 0x40120c, 0x10000, false); /* gone */
        touch(p, 0x401210, 0x20010, true, 8);
        call(p, f_realloc, 0x20000, (ADDRINT)1 << 60);
        machine_return(p, 0); /* failed: still there */
        touch(p, 0x401214, 0x20010, false, 8);
        /* calloc by way of malloc, as some allocators do: one buffer, calloc's */
        call(p, f_calloc, 10, 8);
        call(p, f_malloc, 80);
        machine_return(p, 0x30000);
        machine_return(p, 0x30000);
        touch(p, 0x401218, 0x30048, true, 8);
        /* operator new tail-calls malloc: same stack pointer, one return */
        call(p, f_new, 24);
        p.c.reg[REG_STACK_PTR] += 64;
        machine_enter(p, f_malloc, 24);
        machine_return(p, 0x40000);
        touch(p, 0x40121c, 0x40010, true, 8);
        /* operator new throws: never returns; what called it does */
        call(p, work);
        call(p, f_new, (ADDRINT)1 << 62);
        p.c.reg[REG_STACK_PTR] += 64;
        machine_return(p, 0x7777);
        touch(p, 0x40121e, 0x20000, false); /* outside of work */
        static ADDRINT out = 0x50000;
        call(p, f_posix, (ADDRINT)&out, 64, 128);
        machine_return(p, 0);
        touch(p, 0x401220, 0x5007f, true, 1);
        call(p, f_delete, 0x40000);
        machine_return(p, 0);
        touch(p, 0x401224, 0x40010, true, 8); /* gone */
        call(p, f_free, 0x50000);
        machine_return(p, 0);
        touch(p, 0x401226, 0x50000, true, 1); /* gone */
        call(p, f_realloc, 0x30000, 0);
        machine_return(p, 0);
        touch(p, 0x401228, 0x30048, true, 8); /* gone */
        machine_syscall(p, SYS_mmap, 0, 5000, 3, 0x100000);
        touch(p, 0x40122c, 0x101fff, false, 1);
        machine_syscall(p, SYS_munmap, 0x100000, 4096, 0, 0);
        touch(p, 0x401230, 0x100000, false, 1); /* gone */
        touch(p, 0x401234, 0x101000, false, 1);
        machine_syscall(p, SYS_mmap, 0, 5000, 3, (ADDRINT)-12);
        machine_syscall(p, SYS_brk, 0, 0, 0, 0x600000);
        machine_syscall(p, SYS_brk, 0x601000, 0, 0, 0x601000);
        touch(p, 0x401238, 0x600800, true, 2);
        /* two operands of one instruction, each its own address; a gather of three with one masked out */
        INS two = make(0x40123c, {{TRUE, FALSE, 4}, {FALSE, TRUE, 4}});
        p.ea[0] = 0x20000, p.ea[1] = 0x20020;
        machine_execute(p, two, [] {});
        machine_forget(two);
        machine_execute(p, two, [] {});
        INS gather = make(0x401240, {{TRUE, FALSE, 0}});
        gather->scattered = TRUE;
        p.elements = {{0x20000, 0x20004, 0x20008}, {true, false, true}};
        machine_execute(p, gather, [] {});
        INS save = make(0x401244, {{FALSE, TRUE, 0}});
        save->odd_size = TRUE;
        p.ea[0] = 0x600000, p.odd_size = 64;
        machine_execute(p, save, [] {});
        INS nop = make(0x401248, {{TRUE, FALSE, 4}});
        nop->nop = TRUE;
        machine_execute(p, nop, [] {});
        touch(p, 0x500254, 0x20000, false); /* a library's */
        call(p, work);
        touch(p, 0x40124c, 0x20000, false);
        machine_return(p, 0);
        INS on = make(0x401250, {{TRUE, FALSE, 4}});
        p.ea[0] = 0x20000;
        machine_execute(p, on, [] {}); /* translated while off */
        machine_signal(p, 10);
        machine_execute(p, on, [] {});
        machine_signal(p, 12);
        machine_execute(p, on, [] {});
    });
}

/* ---- what ends a trace, or an access ---- */

static void fork_or_exec(bool exec)
{
    routine(&image, 0x401100, "main");
    machine_load(&image);
    machine_thread(0, [&](cpu &p) {
        touch(p, 0x401200, 0x1000, true);
        if (exec)
            machine_syscall(p, SYS_execve, (ADDRINT) "/none/there", 0, 0, (ADDRINT)-2); /* fails: we go on */
        touch(p, 0x401204, 0x1008, true);
        if (exec)
            machine_syscall(p, SYS_execve, (ADDRINT) "/bin/sh", 0, 0, 0);
        else
            machine_fork_child(p);
        touch(p, 0x401208, 0x1010, true); /* another program's, or the child's */
    });
}

/* It is the parent, twice, and goes on. */
static void program_parent()
{
    routine(&image, 0x401100, "main");
    machine_load(&image);
    machine_thread(0, [&](cpu &p) {
        machine_fork_parent(p);
        machine_fork_parent(p);
        touch(p, 0x401200, 0x1000, true);
    });
}

/* A faulting access did not happen; its locks must be free for the next thread. */
static void fault()
{
    routine(&image, 0x401100, "main");
    machine_load(&image);
    INS store = make(0x401200, {{FALSE, TRUE, 4}}), odd = make(0x401204, {{FALSE, TRUE, 4}});
    odd->neither = TRUE;
    machine_thread(0, [&](cpu &p) {
        p.ea[0] = 0x1000;
        machine_fault(p, store);
        std::thread other([&] {
            machine_thread(1, [&](cpu &q) {
                q.ea[0] = 0x1004;
                machine_execute(q, store, [] {});
            });
        });
        other.join();
        p.ea[0] = 0x1008;
        machine_execute(p, odd, [] {}); /* no place after it: recorded at once */
        std::thread third([&] {
            machine_thread(2, [&](cpu &q) {
                q.ea[0] = 0x100c;
                machine_execute(q, store, [] {});
            });
        });
        third.join();
    });
}

/* ---- insn ---- */

static void insn()
{
    routine(&image, 0x401100, "main");
    machine_load(&image);
    machine_load(&library);
    machine_thread(0, [&](cpu &p) {
        INS add = make(0x401010, {{TRUE, TRUE, 8}}, "add qword ptr [rbx], rax");
        add->reads = {REG_RBX, REG_GAX, REG_RBX, REG_INVALID_};
        add->writes = {REG_GFLAGS};
        INS mov = make(0x401000, {}, "movaps xmm0, xmm0");
        mov->reads = mov->writes = {REG_XMM0, REG_ST0};
        INS other = make(0x500010, {{TRUE, FALSE, 8}}, "never seen");
        for (int i = 0; i < 3; i++) {
            p.ea[0] = 0x7000 + 8 * i;
            machine_execute(p, add, [] {});
            machine_execute(p, other, [] {});
            if (i == 1)
                machine_forget(add);
            machine_execute(p, mov, [] {});
        }
    });
}

void program(int argc, char **argv)
{
    if (strcmp(argv[0], "inc") == 0 || strcmp(argv[0], "cas") == 0)
        share(argc, argv, argv[0][0] == 'c');
    else if (strcmp(argv[0], "mat") == 0)
        mat();
    else if (strcmp(argv[0], "parent") == 0)
        program_parent();
    else if (strcmp(argv[0], "fork") == 0 || strcmp(argv[0], "exec") == 0)
        fork_or_exec(argv[0][0] == 'e');
    else if (strcmp(argv[0], "fault") == 0)
        fault();
    else
        insn();
}
