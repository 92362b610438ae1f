#include "machine.h"
#include <mutex>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>

using namespace LEVEL_BASE;

static std::recursive_mutex client;
static std::vector<IMG> images;
static std::vector<fake_knob *> knobs;
static void (*on_image)(IMG, void *), (*on_gone)(IMG, void *), (*on_ins)(INS, void *);
static void (*on_start)(THREADID, CONTEXT *, INT32, void *);
static void (*on_fini)(THREADID, const CONTEXT *, INT32, void *);
static void (*on_entry)(THREADID, CONTEXT *, SYSCALL_STANDARD, void *),
    (*on_exit_)(THREADID, CONTEXT *, SYSCALL_STANDARD, void *);
static void (*on_change)(THREADID, CONTEXT_CHANGE_REASON, const CONTEXT *, CONTEXT *, INT32, void *);
static void (*on_prepare)(void *), (*on_end)(INT32, void *);
static void (*on_fork[3])(THREADID, const CONTEXT *, void *);
static BOOL (*on_signal[64])(THREADID, INT32, CONTEXT *, BOOL, const EXCEPTION_INFO *, void *);
static const void *tls[4096];
static std::vector<std::thread *> internal;
static std::atomic<bool> going;
static int program_argc;
static char **program_argv;

/* ---- arguments of inserted calls ---- */

static void read_args(va_list ap, std::vector<fake_arg> &out)
{
    for (int kind; (kind = va_arg(ap, int)) != IARG_END;) {
        if (kind == IARG_FAST_ANALYSIS_CALL)
            continue;
        if (kind == IARG_IARGLIST) {
            IARGLIST l = va_arg(ap, IARGLIST);
            out.insert(out.end(), l->list.begin(), l->list.end());
            continue;
        }
        BOOL with = kind == IARG_REG_VALUE || kind == IARG_UINT32 || kind == IARG_MEMORYOP_EA ||
                    kind == IARG_MULTI_ELEMENT_OPERAND || kind == IARG_FUNCARG_ENTRYPOINT_VALUE;
        out.push_back({kind, with ? va_arg(ap, unsigned) : 0u});
    }
}

static ADDRINT value_of(cpu &p, const fake_arg &a)
{
    switch (a.kind) {
    case IARG_REG_VALUE:
        return p.c.reg[a.value];
    case IARG_MEMORYOP_EA:
        return p.ea[a.value];
    case IARG_MULTI_ELEMENT_OPERAND:
        return (ADDRINT)&p.elements;
    case IARG_FUNCARG_ENTRYPOINT_VALUE:
        return p.args[a.value];
    case IARG_RETURN_IP:
        return p.back;
    case IARG_MEMORYREAD_SIZE:
    case IARG_MEMORYWRITE_SIZE:
        return p.odd_size;
    default:
        return a.value;
    }
}

static ADDRINT call(cpu &p, const fake_call &c)
{
    ADDRINT v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (c.args.size() > 8)
        abort();
    for (size_t i = 0; i < c.args.size(); i++)
        v[i] = value_of(p, c.args[i]);
    auto f = (ADDRINT(*)(ADDRINT, ADDRINT, ADDRINT, ADDRINT, ADDRINT, ADDRINT, ADDRINT, ADDRINT))c.f;
    return f(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

static void call_all(cpu &p, const std::vector<fake_call> &calls, IPOINT where)
{
    BOOL last = TRUE;
    for (const fake_call &c : calls)
        if (c.where == where && (!c.is_then || last)) {
            ADDRINT v = call(p, c);
            if (c.is_if)
                last = (v & 255) != 0; /* a BOOL of C++ */
        }
}

#define INSERT(to, is_if, is_then)                                                                           \
    va_list ap;                                                                                              \
    va_start(ap, f);                                                                                         \
    (to).push_back({where, f, is_if, is_then, {}});                                                          \
    read_args(ap, (to).back().args);                                                                         \
    va_end(ap)
void INS_InsertCall(INS i, IPOINT where, AFUNPTR f, ...)
{
    if ((where == IPOINT_AFTER && !INS_IsValidForIpointAfter(i)) ||
        (where == IPOINT_TAKEN_BRANCH && !INS_IsValidForIpointTakenBranch(i)))
        abort();
    INSERT(i->calls, FALSE, FALSE);
}
void INS_InsertPredicatedCall(INS i, IPOINT where, AFUNPTR f, ...)
{
    INSERT(i->calls, FALSE, FALSE);
}
void INS_InsertIfCall(INS i, IPOINT where, AFUNPTR f, ...)
{
    INSERT(i->calls, TRUE, FALSE);
}
void INS_InsertThenCall(INS i, IPOINT where, AFUNPTR f, ...)
{
    INSERT(i->calls, FALSE, TRUE);
}
void RTN_InsertCall(RTN r, IPOINT where, AFUNPTR f, ...)
{
    INSERT(r->calls, FALSE, FALSE);
}
IARGLIST IARGLIST_Alloc()
{
    return new fake_args;
}
void IARGLIST_Free(IARGLIST l)
{
    delete l;
}
void IARGLIST_AddArguments(IARGLIST l, ...)
{
    va_list ap;
    va_start(ap, l);
    read_args(ap, l->list);
    va_end(ap);
}

/* ---- execution ---- */

static std::recursive_mutex translating;

static void translate(INS i)
{
    std::lock_guard<std::recursive_mutex> one(translating), lock(client);
    if (i->translated)
        return;
    i->calls.clear();
    on_ins(i, nullptr);
    i->translated = true;
}

void machine_execute(cpu &p, INS i, const std::function<void()> &real)
{
    if (!i->translated)
        translate(i);
    static thread_local unsigned count;
    p.c.reg[REG_INST_PTR] = i->address;
    call_all(p, i->calls, IPOINT_BEFORE);
    real();
    if (++count % 3 == 0) /* what a record without a lock gets wrong */
        sched_yield();
    call_all(p, i->calls, INS_IsValidForIpointAfter(i) ? IPOINT_AFTER : IPOINT_TAKEN_BRANCH);
}

void machine_fault(cpu &p, INS i)
{
    translate(i);
    call_all(p, i->calls, IPOINT_BEFORE);
    machine_context_change(p);
}

void machine_forget(INS i)
{
    i->translated = false;
}

void machine_enter(cpu &p, RTN r, ADDRINT a0, ADDRINT a1, ADDRINT a2)
{
    p.c.reg[REG_STACK_PTR] -= 64;
    p.args[0] = a0, p.args[1] = a1, p.args[2] = a2;
    call_all(p, r->calls, IPOINT_BEFORE);
}

void machine_return(cpu &p, ADDRINT value)
{
    static fake_ins ret;
    static std::once_flag once;
    std::call_once(once, [] {
        ret.address = 0x401f00;
        ret.text = "ret";
        ret.memops = {{TRUE, FALSE, 8}};
        ret.ret = ret.branch = TRUE;
    });
    p.c.reg[REG_GAX] = value;
    p.ea[0] = p.c.reg[REG_STACK_PTR];
    machine_execute(p, &ret, [] {});
    p.c.reg[REG_STACK_PTR] += 64;
}

void machine_syscall(cpu &p, ADDRINT number, ADDRINT a0, ADDRINT a1, ADDRINT a2, ADDRINT result)
{
    std::lock_guard<std::recursive_mutex> lock(client);
    p.c.number = number;
    p.c.arg[0] = a0, p.c.arg[1] = a1, p.c.arg[2] = a2;
    p.c.reg[REG_INST_PTR] = 0x401e00;
    on_entry(p.tid, &p.c, SYSCALL_STANDARD_IA32E_LINUX, nullptr);
    p.c.result = result;
    on_exit_(p.tid, &p.c, SYSCALL_STANDARD_IA32E_LINUX, nullptr);
}

void machine_signal(cpu &p, INT32 signal)
{
    std::lock_guard<std::recursive_mutex> lock(client);
    if (on_signal[signal])
        on_signal[signal](p.tid, signal, &p.c, FALSE, nullptr, nullptr);
}

void machine_context_change(cpu &p)
{
    std::lock_guard<std::recursive_mutex> lock(client);
    on_change(p.tid, CONTEXT_CHANGE_REASON_SIGNAL, &p.c, &p.c, 11, nullptr);
}

void machine_fork_parent(cpu &p)
{
    on_fork[FPOINT_BEFORE](p.tid, &p.c, nullptr);
    on_fork[FPOINT_AFTER_IN_PARENT](p.tid, &p.c, nullptr);
}

void machine_fork_child(cpu &p)
{
    on_fork[FPOINT_BEFORE](p.tid, &p.c, nullptr);
    on_fork[FPOINT_AFTER_IN_CHILD](p.tid, &p.c, nullptr);
}

void machine_thread(THREADID tid, const std::function<void(cpu &)> &body)
{
    cpu p;
    memset(&p.c, 0, sizeof p.c);
    p.tid = tid;
    p.back = 0x401005;
    p.c.reg[REG_STACK_PTR] = 0x7ffd00000000 - tid * 0x10000000ull;
    {
        std::lock_guard<std::recursive_mutex> lock(client);
        on_start(tid, &p.c, 0, nullptr);
    }
    body(p);
    std::lock_guard<std::recursive_mutex> lock(client);
    on_fini(tid, &p.c, 0, nullptr);
}

void machine_load(IMG img)
{
    std::lock_guard<std::recursive_mutex> lock(client);
    images.push_back(img);
    on_image(img, nullptr);
}

/* ---- the interface: mostly one line each ---- */
// clang-format off

ADDRINT INS_Address(INS i) { return i->address; }
USIZE INS_Size(INS) { return 4; }
INT32 INS_Opcode(INS i) { return i->opcode; }
BOOL INS_IsPrefetch(INS) { return FALSE; }
BOOL INS_IsNop(INS i) { return i->nop; }
BOOL INS_IsRet(INS i) { return i->ret; }
BOOL INS_IsStandardMemop(INS i) { return !i->scattered && !i->odd_size; }
BOOL INS_HasScatteredMemoryAccess(INS i) { return i->scattered; }
BOOL INS_IsValidForIpointAfter(INS i) { return !i->branch && !i->neither; }
BOOL INS_IsValidForIpointTakenBranch(INS i) { return i->branch && !i->neither; }
UINT32 INS_MemoryOperandCount(INS i) { return (UINT32)i->memops.size(); }
BOOL INS_MemoryOperandIsRead(INS i, UINT32 k) { return i->memops.at(k).reads; }
BOOL INS_MemoryOperandIsWritten(INS i, UINT32 k) { return i->memops.at(k).writes; }
USIZE INS_MemoryOperandSize(INS i, UINT32 k)
{
    if (!INS_IsStandardMemop(i))
        abort();
    return i->memops.at(k).size;
}
UINT32 INS_MemoryOperandIndexToOperandIndex(INS, UINT32 k) { return k; }
std::string INS_Disassemble(INS i) { return i->text; }
UINT32 INS_MaxNumRRegs(INS i) { return (UINT32)i->reads.size(); }
UINT32 INS_MaxNumWRegs(INS i) { return (UINT32)i->writes.size(); }
REG INS_RegR(INS i, UINT32 k) { return i->reads.at(k); }
REG INS_RegW(INS i, UINT32 k) { return i->writes.at(k); }
BOOL REG_valid(REG r) { return r != REG_INVALID_; }
std::string REG_StringShort(REG r)
{
    static const char *const names[] = {"", "rax", "rsp", "rip", "rflags", "rbx", "xmm0", "st0", "tool"};
    return names[r];
}
BOOL REG_is_fr(REG) { return FALSE; }
BOOL REG_is_st(REG r) { return r == REG_ST0; }
BOOL REG_is_mm(REG) { return FALSE; }
BOOL REG_is_xmm_ymm_zmm(REG r) { return r == REG_XMM0; }
SEC IMG_SecHead(IMG i) { return i; }
SEC SEC_Next(SEC) { return nullptr; }
BOOL SEC_Valid(SEC s) { return s != nullptr; }
RTN SEC_RtnHead(SEC s) { return s->first; }
RTN RTN_Next(RTN r) { return r->next; }
BOOL RTN_Valid(RTN r) { return r != nullptr; }
std::string RTN_Name(RTN r) { return r->name; }
ADDRINT RTN_Address(RTN r) { return r->address; }
RTN RTN_FindByName(IMG i, const char *name)
{
    RTN r = i->first;
    while (r && r->name != name)
        r = r->next;
    return r;
}
std::string RTN_FindNameByAddress(ADDRINT) { return "somewhere"; }
void RTN_Open(RTN) {}
void RTN_Close(RTN) {}
BOOL IMG_Valid(IMG i) { return i != nullptr; }
BOOL IMG_IsMainExecutable(IMG i) { return i->main; }
// The made-up program has the variables of this very one, moved to where nothing else is.
std::string IMG_Name(IMG i) { return i->main ? "/proc/self/exe" : "/made/up/library.so"; }
ADDRINT IMG_LoadOffset(IMG) { return 0x700000000000; }
UINT32 IMG_NumRegions(IMG) { return 1; }
ADDRINT IMG_RegionLowAddress(IMG i, UINT32) { return i->low; }
ADDRINT IMG_RegionHighAddress(IMG i, UINT32) { return i->high; }
ADDRINT IMG_LowAddress(IMG i) { return i->low; }
ADDRINT IMG_HighAddress(IMG i) { return i->high; }
IMG IMG_FindByAddress(ADDRINT a)
{
    for (IMG i : images)
        if (a >= i->low && a <= i->high)
            return i;
    return nullptr;
}
void IMG_AddInstrumentFunction(void (*f)(IMG, void *), void *) { on_image = f; }
void IMG_AddUnloadFunction(void (*f)(IMG, void *), void *) { on_gone = f; }
void INS_AddInstrumentFunction(void (*f)(INS, void *), void *) { on_ins = f; }
void PIN_LockClient() { client.lock(); }
void PIN_UnlockClient() { client.unlock(); }
void PIN_Yield() { sched_yield(); }
void PIN_Sleep(UINT32 ms) { usleep(ms * 1000); }
REG PIN_ClaimToolRegister() { return REG_TOOL; }
THREADID PIN_SpawnInternalThread(void (*f)(void *), void *arg, size_t, void *)
{
    if (going)
        return INVALID_THREADID;
    internal.push_back(new std::thread([=] {
        while (!going)
            usleep(100);
        f(arg);
    }));
    return 1000;
}
TLS_KEY PIN_CreateThreadDataKey(void (*)(void *)) { return 0; }
void *PIN_GetThreadData(TLS_KEY, THREADID t) { return const_cast<void *>(tls[t]); }
BOOL PIN_SetThreadData(TLS_KEY, const void *v, THREADID t)
{
    tls[t] = v;
    return TRUE;
}
ADDRINT PIN_GetContextReg(const CONTEXT *c, REG r) { return c->reg[r]; }
void PIN_SetContextReg(CONTEXT *c, REG r, ADDRINT v) { c->reg[r] = v; }
ADDRINT PIN_GetSyscallNumber(const CONTEXT *c, SYSCALL_STANDARD) { return c->number; }
ADDRINT PIN_GetSyscallArgument(const CONTEXT *c, SYSCALL_STANDARD, UINT32 i) { return c->arg[i]; }
ADDRINT PIN_GetSyscallReturn(const CONTEXT *c, SYSCALL_STANDARD) { return c->result; }
size_t PIN_SafeCopy(void *to, const void *from, size_t n)
{
    if ((uintptr_t)from >= 0x400000 && (uintptr_t)from < 0x501000) { /* code that nobody made */
        memset(to, 0x90, n);
        return n;
    }
    memcpy(to, from, n);
    return n;
}
void PIN_GetSourceLocation(ADDRINT a, INT32 *column, INT32 *line, std::string *file)
{
    *column = 0;
    *line = (INT32)(a & 0xfff);
    *file = "made_up.c";
}
std::string PIN_UndecorateSymbolName(const std::string &n, UNDECORATION) { return n; }
void PIN_AddThreadStartFunction(void (*f)(THREADID, CONTEXT *, INT32, void *), void *) { on_start = f; }
void PIN_AddThreadFiniFunction(void (*f)(THREADID, const CONTEXT *, INT32, void *), void *) { on_fini = f; }
void PIN_AddSyscallEntryFunction(void (*f)(THREADID, CONTEXT *, SYSCALL_STANDARD, void *), void *) { on_entry = f; }
void PIN_AddSyscallExitFunction(void (*f)(THREADID, CONTEXT *, SYSCALL_STANDARD, void *), void *) { on_exit_ = f; }
void PIN_AddContextChangeFunction(void (*f)(THREADID, CONTEXT_CHANGE_REASON, const CONTEXT *, CONTEXT *, INT32, void *), void *) { on_change = f; }
void PIN_AddForkFunction(FPOINT w, void (*f)(THREADID, const CONTEXT *, void *), void *) { on_fork[w] = f; }
void PIN_AddPrepareForFiniFunction(void (*f)(void *), void *) { on_prepare = f; }
void PIN_AddFiniFunction(void (*f)(INT32, void *), void *) { on_end = f; }
BOOL PIN_InterceptSignal(INT32 s, BOOL (*f)(THREADID, INT32, CONTEXT *, BOOL, const EXCEPTION_INFO *, void *), void *)
{
    on_signal[s] = f;
    return TRUE;
}
BOOL PIN_UnblockSignal(INT32, BOOL) { return TRUE; }
void PIN_InitSymbols() {}
// clang-format on

fake_knob::fake_knob(KNOB_MODE mode, const std::string &n, const std::string &def) : name(n)
{
    if (mode != KNOB_MODE_APPEND)
        values.push_back(def);
    for (fake_knob *k : knobs)
        if (k->name == n)
            abort();
    knobs.push_back(this);
}
std::string KNOB_BASE::StringKnobSummary()
{
    return "(knobs)";
}

BOOL PIN_Init(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--") == 0) {
            program_argc = argc - i - 1;
            program_argv = argv + i + 1;
            return program_argc == 0;
        }
        fake_knob *found = nullptr;
        for (fake_knob *k : knobs)
            if (argv[i][0] == '-' && k->name == argv[i] + 1)
                found = k;
        if (!found || i + 1 >= argc)
            return TRUE;
        if (!found->set && !found->values.empty())
            found->values.clear();
        found->set = TRUE;
        found->values.push_back(argv[i + 1]);
    }
    return TRUE;
}

void PIN_StartProgram()
{
    going = true;
    program(program_argc, program_argv);
    on_prepare(nullptr);
    on_end(0, nullptr);
    for (std::thread *t : internal)
        t->join();
    exit(0);
}
