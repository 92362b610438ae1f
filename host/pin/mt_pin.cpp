/* The Pin tool: a thin layer between Pin and the core (core.h). It knows what Pin reports: memory operands
 * of an instruction, entries and returns of functions, and threads. Everything else is the core's.
 * Instrumentation callbacks run one at a time under Pin's client lock, analysis functions concurrently in
 * the program's threads. See docs/host-pin.md.
 *
 * Differences between Pin 3.24 and 4.x are avoided: registers are written LEVEL_BASE::REG_*; thread ids come
 * from the kernel (PIN_ThreadUid is gone in 4); the end of an internal thread is a flag of our own; returns
 * are seen at the return instruction, since IPOINT_AFTER of a routine misses tail calls and, in 4,
 * allocators. */
#include "pin.H"
#include "pin_version.h"

extern "C" {
#include "core.h"
#include "platform.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <string.h>
#include <sys/syscall.h>
#include <unordered_map>
#include <utility>
#include <vector>

#if PIN_PRODUCT_VERSION_MAJOR < 3 || (PIN_PRODUCT_VERSION_MAJOR == 3 && PIN_PRODUCT_VERSION_MINOR < 24)
#error "Pin 3.24 or newer is needed"
#endif
#if !defined(TARGET_IA32E) || !defined(TARGET_LINUX)
#error "host tracing is for x86-64 Linux"
#endif

/* A call that has not returned. */
struct pin_frame {
    ADDRINT sp; /* address of the return address at entry */
    ADDRINT ip; /* address in the call instruction */
    UINT32 what, function;
    BOOL counted; /* an allocator not called by another one */
    ADDRINT args[3];
};

struct pin_thread {
    ADDRINT watch; /* watched returns have this stack pointer or a higher one; all bits set: none */
    struct mt_core_thread *core; /* NULL: this thread is not traced */
    struct pin_frame *frames;
    UINT32 count, room, allocators;
    ADDRINT syscall, syscall_args[3], syscall_ip;
};

static REG pin_register;       /* register with the running thread's struct pin_thread, never
                                * NULL */
enum mt_core_mode mt_pin_mode; /* mode of this run */

/* Ends the previous access; called in every analysis function and callback of atomic mode. */
static inline VOID pin_finish(struct pin_thread *s)
{
    if (mt_pin_mode == MT_CORE_ATOMIC && s->core)
        mt_core_atomic_end(s->core, NULL, 0, 0);
}

struct pin_operand {
    UINT32 memop;                  /* index among the memory operands */
    UINT32 size;                   /* 0: known when it executes, or per element */
    BOOL scattered, reads, writes; /* scattered: many elements (gather, scatter) */
};
struct pin_insn {
    UINT32 site;        /* site of operand 0; 0: none */
    UINT32 count, code; /* code: enum mt_core_code */
    BOOL cas;
    struct pin_operand operand[3];
};

/* Sites of instructions, and their operands. */

struct known {
    UINT32 site;
    UINT64 bytes; /* hash of the instruction */
};
static std::unordered_map<ADDRINT, known> *sites; /* never freed: Pin may ask until the very end */

static UINT64 pin_hash_of(INS ins)
{
    unsigned char code[16];
    UINT64 h = 14695981039346656037u;
    size_t n = PIN_SafeCopy(code, (const VOID *)INS_Address(ins), INS_Size(ins) < 16 ? INS_Size(ins) : 16);
    for (size_t i = 0; i < n; i++)
        h = (h ^ code[i]) * 1099511628211u;
    return h;
}

static BOOL pin_compares_and_swaps(INS ins)
{
    switch (INS_Opcode(ins)) {
    case XED_ICLASS_CMPXCHG:
    case XED_ICLASS_CMPXCHG8B:
    case XED_ICLASS_CMPXCHG16B:
    case XED_ICLASS_CMPXCHG_LOCK:
    case XED_ICLASS_CMPXCHG8B_LOCK:
    case XED_ICLASS_CMPXCHG16B_LOCK:
        return TRUE;
    default:
        return FALSE;
    }
}

static VOID operands_of(INS ins, struct pin_insn *n)
{
    memset(n, 0, sizeof *n);
    if (INS_IsPrefetch(ins) || INS_IsNop(ins)) /* name an address and do not touch it */
        return;
    n->cas = pin_compares_and_swaps(ins);
    for (UINT32 i = 0; i < INS_MemoryOperandCount(ins) && n->count < 3; i++) {
        struct pin_operand *o = &n->operand[n->count];
        o->memop = i;
        o->reads = INS_MemoryOperandIsRead(ins, i);
        o->writes = INS_MemoryOperandIsWritten(ins, i);
        o->scattered = INS_HasScatteredMemoryAccess(ins);
        /* XSAVE and the like: their size depends on the enabled state. */
        if (!o->scattered && INS_IsStandardMemop(ins))
            o->size = (UINT32)INS_MemoryOperandSize(ins, i);
        n->count += o->reads || o->writes;
    }
    /* Reads come before writes: movs, and pop into memory. */
    if (n->count == 2 && !n->operand[0].reads && !n->operand[1].writes)
        std::swap(n->operand[0], n->operand[1]);
}

static enum mt_host_op pin_op_of(const struct pin_insn *n, const struct pin_operand *o)
{
    if (o->reads && o->writes)
        return n->cas ? MT_HOST_CAS : MT_HOST_ATOMIC;
    return o->reads ? MT_HOST_LOAD : MT_HOST_STORE;
}

/* Appends a register's name, once; "*" after floating-point and vector registers. */
static VOID add_register(std::string &list, REG reg)
{
    if (!REG_valid(reg))
        return;
    std::string name = REG_StringShort(reg);
    if (REG_is_fr(reg) || REG_is_st(reg) || REG_is_mm(reg) || REG_is_xmm_ymm_zmm(reg))
        name += "*";
    if ((" " + list + " ").find(" " + name + " ") == std::string::npos)
        list += (list.empty() ? "" : " ") + name;
}

static UINT32 sites_define(INS ins, const struct pin_insn *n)
{
    struct mt_core_site s[4];
    UINT32 first = mt_pin_mode == MT_CORE_INSN;
    std::string text, reads, writes;
    memset(s, 0, sizeof s);
    for (UINT32 i = 0; i < first + n->count; i++)
        s[i].ip = INS_Address(ins);
    for (UINT32 i = 0; i < n->count; i++) {
        s[first + i].op = pin_op_of(n, &n->operand[i]);
        s[first + i].size = n->operand[i].size;
    }
    if (first) {
        text = INS_Disassemble(ins);
        for (UINT32 i = 0; i < INS_MaxNumRRegs(ins); i++)
            add_register(reads, INS_RegR(ins, i));
        for (UINT32 i = 0; i < INS_MaxNumWRegs(ins); i++)
            add_register(writes, INS_RegW(ins, i));
        s[0].op = MT_HOST_EXEC;
        s[0].text = text.c_str();
        s[0].reads = reads.c_str();
        s[0].writes = writes.c_str();
    }
    return first + n->count ? mt_core_sites(s, first + n->count) : 0;
}

/* Returns how code of an image is recorded; of no image, if it is not valid. */
static enum mt_core_code pin_code(IMG img)
{
    return IMG_Valid(img) ? mt_core_code(IMG_Name(img).c_str(), IMG_IsMainExecutable(img))
                          : mt_core_code("", 0);
}

/* Fills in an instruction's operands and sites, the same each time it is translated. insn mode: operand i
 * has site + 1 + i, else site + i. */
static VOID pin_insn_of(INS ins, struct pin_insn *n)
{
    operands_of(ins, n);
    n->code = mt_pin_mode == MT_CORE_INSN ? MT_CODE_ALL : pin_code(IMG_FindByAddress(INS_Address(ins)));
    if ((n->count == 0 && mt_pin_mode != MT_CORE_INSN) || n->code == MT_CODE_NONE)
        return;
    UINT64 bytes = pin_hash_of(ins);
    if (!sites)
        sites = new std::unordered_map<ADDRINT, known>;
    auto found = sites->find(INS_Address(ins));
    if (found != sites->end() && found->second.bytes == bytes) {
        n->site = found->second.site;
        return;
    }
    n->site = sites_define(ins, n);
    (*sites)[INS_Address(ins)] = known{n->site, bytes};
}

/* other code may come to this range */
static VOID pin_sites_forget(ADDRINT low, ADDRINT high)
{
    if (!sites)
        return;
    for (auto i = sites->begin(); i != sites->end();)
        if (i->first >= low && i->first <= high)
            i = sites->erase(i);
        else
            ++i;
}

/* mt_core_code_keeps */
static BOOL pin_keeps(ADDRINT ip)
{
    PIN_LockClient();
    IMG img = IMG_FindByAddress(ip);
    BOOL keeps =
        IMG_Valid(img) && mt_core_code_keeps(IMG_Name(img).c_str(), RTN_FindNameByAddress(ip).c_str());
    PIN_UnlockClient();
    return keeps;
}

static VOID sites_copy(char *to, size_t size, const std::string &from)
{
    snprintf(to, size, "%s", from.c_str());
}

/* mt_core_engine.plain */
static const char *pin_plain(const char *symbol, char *room, unsigned size)
{
    sites_copy(room, size, PIN_UndecorateSymbolName(symbol, UNDECORATION_COMPLETE));
    return room;
}

static int pin_locate(uint64_t ip, struct mt_core_location *place)
{
    INT32 column = 0, line = 0;
    std::string file;
    memset(place, 0, sizeof *place);
    PIN_LockClient(); /* recursive: callbacks hold it already */
    PIN_GetSourceLocation((ADDRINT)ip, &column, &line, &file);
    sites_copy(place->file, sizeof place->file, file);
    place->line = line > 0 && !file.empty() ? (uint32_t)line : 0;
    place->column = column > 0 && !file.empty() ? (uint32_t)column : 0;
    sites_copy(place->function, sizeof place->function,
               PIN_UndecorateSymbolName(RTN_FindNameByAddress((ADDRINT)ip), UNDECORATION_NAME_ONLY));
    IMG img = IMG_FindByAddress((ADDRINT)ip);
    if (IMG_Valid(img))
        sites_copy(place->module, sizeof place->module, IMG_Name(img));
    PIN_UnlockClient();
    return place->module[0] ? 0 : -1;
}

/* Entries and returns of functions: -f, --routine, annotations, and the malloc family. Entries are seen at
 * the routine, returns at return instructions by the stack pointer, which is the same at a function's
 * entry and return. This covers tail calls, and functions left by longjmp or an exception, which a later
 * return shows to be gone. IPOINT_AFTER of a routine covers neither, and is unreliable for allocators in
 * newer kits. */

/* Distance of two stack pointers beyond which they are on two stacks (signal stacks, coroutines). */
#define STACK ((ADDRINT)8 << 20)
#define NO_WATCH (~(ADDRINT)0)

enum what { FUNCTION, ROUTINE, ALLOC, REALLOC, REALLOCARRAY, POSIX_MEMALIGN, FREE };

struct allocator {
    const char *name;
    UINT32 what;
    enum mt_core_alloc_kind kind;
    INT32 size; /* index of the argument; -1: product of the first two */
};
static const struct allocator allocators[] = {
    {"malloc", ALLOC, MT_CORE_MALLOC, 0},
    {"calloc", ALLOC, MT_CORE_CALLOC, -1},
    {"realloc", REALLOC, MT_CORE_REALLOC, 1},
    {"reallocarray", REALLOCARRAY, MT_CORE_REALLOC, 1},
    {"memalign", ALLOC, MT_CORE_MEMALIGN, 1},
    {"aligned_alloc", ALLOC, MT_CORE_MEMALIGN, 1},
    {"posix_memalign", POSIX_MEMALIGN, MT_CORE_MEMALIGN, 2},
    {"valloc", ALLOC, MT_CORE_MEMALIGN, 0},
    {"pvalloc", ALLOC, MT_CORE_MEMALIGN, 0},
    {"_Znwm", ALLOC, MT_CORE_NEW, 0},
    {"_Znam", ALLOC, MT_CORE_NEW, 0},
    {"_ZnwmRKSt9nothrow_t", ALLOC, MT_CORE_NEW, 0},
    {"_ZnamRKSt9nothrow_t", ALLOC, MT_CORE_NEW, 0},
    {"_ZnwmSt11align_val_t", ALLOC, MT_CORE_NEW, 0},
    {"_ZnamSt11align_val_t", ALLOC, MT_CORE_NEW, 0},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOC, MT_CORE_NEW, 0},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", ALLOC, MT_CORE_NEW, 0},
    {"free", FREE, MT_CORE_MALLOC, 0},
    {"cfree", FREE, MT_CORE_MALLOC, 0},
    {"_ZdlPv", FREE, MT_CORE_NEW, 0},
    {"_ZdaPv", FREE, MT_CORE_NEW, 0},
    {"_ZdlPvm", FREE, MT_CORE_NEW, 0},
    {"_ZdaPvm", FREE, MT_CORE_NEW, 0},
    {"_ZdlPvSt11align_val_t", FREE, MT_CORE_NEW, 0},
    {"_ZdaPvSt11align_val_t", FREE, MT_CORE_NEW, 0},
    {"_ZdlPvmSt11align_val_t", FREE, MT_CORE_NEW, 0},
    {"_ZdaPvmSt11align_val_t", FREE, MT_CORE_NEW, 0},
};
#define ALLOCATORS (sizeof allocators / sizeof *allocators)

/* ---- analysis ---- */

static ADDRINT pin_bytes_of(const struct pin_frame *f)
{
    ADDRINT bytes;
    INT32 which = allocators[f->function].size;
    if (f->what == REALLOCARRAY)
        return __builtin_mul_overflow(f->args[1], f->args[2], &bytes) ? 0 : bytes;
    if (which < 0)
        return __builtin_mul_overflow(f->args[0], f->args[1], &bytes) ? 0 : bytes;
    return f->args[which];
}

static VOID before_allocator(struct mt_core_thread *t, const struct pin_frame *f)
{
    BOOL reallocs = f->what == REALLOC || f->what == REALLOCARRAY;
    if (f->what == FREE || (reallocs && f->args[0] && pin_bytes_of(f) == 0)) {
        if (f->args[0])
            mt_core_free(t, f->args[0]);
    } else if (reallocs && f->args[0]) {
        mt_core_realloc_begin(t, f->args[0]);
    }
}

static VOID after_allocator(struct mt_core_thread *t, const struct pin_frame *f, ADDRINT value)
{
    const struct allocator *a = &allocators[f->function];
    ADDRINT base = value, bytes = pin_bytes_of(f);
    if (f->what == FREE)
        return;
    if (f->what == POSIX_MEMALIGN &&
        ((UINT32)value != 0 || PIN_SafeCopy(&base, (const VOID *)f->args[0], sizeof base) != sizeof base))
        return;
    if (!base || !bytes)
        return;
    if (f->args[0] && (f->what == REALLOC || f->what == REALLOCARRAY))
        mt_core_realloc(t, f->args[0], base, bytes, f->ip);
    else
        mt_core_alloc(t, a->kind, base, bytes, f->ip);
    if (mt_core_options()->others == MT_CODE_DATA && pin_keeps(f->ip))
        mt_core_alloc_keep(base);
}

static VOID set_watch(struct pin_thread *s)
{
    s->watch = s->count ? s->frames[s->count - 1].sp : NO_WATCH;
}

/* Leaves the function: by a return, or (returned 0) some other way. */
static VOID pin_calls_pop(struct pin_thread *s, BOOL returned, ADDRINT value)
{
    struct pin_frame f = s->frames[--s->count];
    if (f.what == FUNCTION) {
        if (returned && f.function > MT_CORE_FN_END_ROI)
            mt_core_return(s->core, f.function, f.sp, value);
        return;
    }
    if (f.what == ROUTINE) {
        mt_core_routine_leave(s->core);
        return;
    }
    s->allocators--;
    mt_core_allocator(s->core, -1);
    if (returned && f.counted)
        after_allocator(s->core, &f, value);
}

static struct pin_frame *pin_calls_push(struct pin_thread *s)
{
    if (s->count == s->room) {
        UINT32 room = s->room ? 2 * s->room : 32;
        void *frames = realloc(s->frames, room * sizeof *s->frames);
        if (!frames)
            return NULL;
        s->frames = (struct pin_frame *)frames;
        s->room = room;
    }
    return &s->frames[s->count++];
}

static VOID on_call(struct pin_thread *s, UINT32 what, UINT32 function, ADDRINT sp, ADDRINT back, ADDRINT a0,
                    ADDRINT a1, ADDRINT a2)
{
    const uint64_t args[3] = {a0, a1, a2};
    pin_finish(s);
    if (!s->core) {
        if (what == FUNCTION)
            mt_core_call(NULL, function, sp, args);
        return;
    }
    while (s->count && s->frames[s->count - 1].sp < sp && sp - s->frames[s->count - 1].sp < STACK)
        pin_calls_pop(s, FALSE, 0);
    struct pin_frame *f = pin_calls_push(s);
    if (f) {
        *f = pin_frame{sp, back - 1, what, function, FALSE, {a0, a1, a2}};
        if (what >= ALLOC) {
            f->counted = s->allocators++ == 0;
            mt_core_allocator(s->core, 1);
        }
        if (f->counted)
            before_allocator(s->core, f);
        if (what == ROUTINE)
            mt_core_routine_enter(s->core);
    }
    set_watch(s);
    if (what == FUNCTION)
        mt_core_call(s->core, function, sp, args);
}

static ADDRINT PIN_FAST_ANALYSIS_CALL is_watched(struct pin_thread *s, ADDRINT sp)
{
    return sp >= s->watch;
}

static VOID on_return(struct pin_thread *s, ADDRINT sp, ADDRINT value)
{
    pin_finish(s);
    while (s->count && s->frames[s->count - 1].sp <= sp && sp - s->frames[s->count - 1].sp < STACK)
        pin_calls_pop(s, s->frames[s->count - 1].sp == sp, value);
    set_watch(s);
}

static VOID pin_calls_free(struct pin_thread *s)
{
    free(s->frames);
    s->frames = NULL;
    s->count = s->room = 0;
    s->watch = NO_WATCH;
}

/* ---- instrumentation ---- */

static VOID calls_hook(RTN rtn, UINT32 what, UINT32 function)
{
    RTN_Open(rtn);
    RTN_InsertCall(rtn, IPOINT_BEFORE, (AFUNPTR)on_call, IARG_REG_VALUE, pin_register, IARG_UINT32, what,
                   IARG_UINT32, function, IARG_REG_VALUE, LEVEL_BASE::REG_STACK_PTR, IARG_RETURN_IP,
                   IARG_FUNCARG_ENTRYPOINT_VALUE, 0, IARG_FUNCARG_ENTRYPOINT_VALUE, 1,
                   IARG_FUNCARG_ENTRYPOINT_VALUE, 2, IARG_END);
    RTN_Close(rtn);
}

static BOOL pin_is_routine(const char *name)
{
    const struct mt_core_list *l = &mt_core_options()->routine;
    for (unsigned i = 0; i < l->count; i++)
        if (strcmp(l->item[i], name) == 0)
            return TRUE;
    return FALSE;
}

static VOID hook_named(IMG img)
{
    BOOL atomic = mt_pin_mode == MT_CORE_ATOMIC;
    for (SEC sec = IMG_SecHead(img); SEC_Valid(sec); sec = SEC_Next(sec))
        for (RTN rtn = SEC_RtnHead(sec); RTN_Valid(rtn); rtn = RTN_Next(rtn)) {
            if (mt_core_symbol_is_part(RTN_Name(rtn).c_str()))
                continue;
            std::string name = PIN_UndecorateSymbolName(RTN_Name(rtn), UNDECORATION_NAME_ONLY);
            UINT32 function = mt_core_function(name.c_str());
            if (function && (atomic || function <= MT_CORE_FN_END_ROI))
                calls_hook(rtn, FUNCTION, function);
            if (!atomic && pin_is_routine(name.c_str()))
                calls_hook(rtn, ROUTINE, 0);
        }
}

/* Hooks allocators; one routine may have several of the names. */
static VOID hook_allocators(IMG img)
{
    ADDRINT hooked[ALLOCATORS];
    UINT32 count = 0;
    for (UINT32 i = 0; i < ALLOCATORS; i++) {
        RTN rtn = RTN_FindByName(img, allocators[i].name);
        BOOL known = !RTN_Valid(rtn);
        for (UINT32 k = 0; k < count && !known; k++)
            known = hooked[k] == RTN_Address(rtn);
        if (known)
            continue;
        hooked[count++] = RTN_Address(rtn);
        calls_hook(rtn, allocators[i].what, i);
    }
}

static VOID pin_calls_image(IMG img)
{
    hook_named(img);
    hook_allocators(img);
}

static VOID pin_calls_instruction(INS ins)
{
    if (!INS_IsRet(ins))
        return;
    INS_InsertIfCall(ins, IPOINT_BEFORE, (AFUNPTR)is_watched, IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE,
                     pin_register, IARG_REG_VALUE, LEVEL_BASE::REG_STACK_PTR, IARG_END);
    INS_InsertThenCall(ins, IPOINT_BEFORE, (AFUNPTR)on_return, IARG_REG_VALUE, pin_register, IARG_REG_VALUE,
                       LEVEL_BASE::REG_STACK_PTR, IARG_REG_VALUE, LEVEL_BASE::REG_GAX, IARG_END);
}

/* Memory accesses of instructions in mat, insn and atomic mode. Every operand has its own address. Calls
 * are inserted when code is translated and ask the core each time, so that switching on and off needs no
 * new translation. */

/* ---- mat ---- */

static VOID PIN_FAST_ANALYSIS_CALL pin_on_access(struct pin_thread *s, UINT32 site, ADDRINT address,
                                                 UINT32 size)
{
    if (s->core)
        mt_core_access(s->core, site, address, size);
}

/* For code of the C runtime. */
static VOID PIN_FAST_ANALYSIS_CALL pin_on_data(struct pin_thread *s, UINT32 site, ADDRINT address,
                                               UINT32 size)
{
    if (s->core && mt_core_wants(s->core, MT_CODE_DATA, address))
        mt_core_access(s->core, site, address, size);
}

/* For code that is left out. */
static VOID pin_on_left_out(struct pin_thread *s, UINT32 count)
{
    if (s->core)
        mt_core_left_out(s->core, count);
}

template <typename F> static VOID each_element(IMULTI_ELEMENT_OPERAND *m, F f)
{
    for (UINT32 i = 0; i < m->NumOfElements(); i++)
        if (m->ElementMaskValue(i))
            f(m->ElementAddress(i), (UINT32)m->ElementSize(i));
}

static VOID on_elements(struct pin_thread *s, UINT32 site, UINT32 code, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) {
            if (mt_core_wants(s->core, (enum mt_core_code)code, a))
                mt_core_access(s->core, site, a, n);
        });
}

/* ---- insn ---- */

static VOID pin_on_insn(struct pin_thread *s, UINT32 site)
{
    if (s->core)
        mt_core_insn(s->core, site);
}

static VOID on_insn_operand(struct pin_thread *s, UINT32 site, ADDRINT address, UINT32 size)
{
    if (s->core)
        mt_core_insn_operand(s->core, site, address, size);
}

static VOID on_insn_elements(struct pin_thread *s, UINT32 site, UINT32, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) { mt_core_insn_operand(s->core, site, a, n); });
}

/* ---- atomic: locks are taken before the instruction and released after it ---- */

static VOID access_begin(struct pin_thread *s, UINT32 code, struct mt_core_operand *o, UINT32 count)
{
    UINT32 wanted = 0;
    if (!s->core)
        return;
    mt_core_atomic_end(s->core, NULL, 0, 0); /* the previous iteration of a rep */
    for (UINT32 i = 0; i < count; i++)
        if (mt_core_wants(s->core, (enum mt_core_code)code, o[i].address))
            o[wanted++] = o[i];
    if (wanted)
        mt_core_atomic_begin(s->core, o, wanted);
}

static VOID on_begin1(struct pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0)
{
    struct mt_core_operand o[] = {{a0, site, n0}};
    access_begin(s, code, o, 1);
}

static VOID on_begin2(struct pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0, ADDRINT a1,
                      UINT32 n1)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}};
    access_begin(s, code, o, 2);
}

static VOID on_begin3(struct pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0, ADDRINT a1,
                      UINT32 n1, ADDRINT a2, UINT32 n2)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}, {a2, site + 2, n2}};
    access_begin(s, code, o, 3);
}

/* Gathers and scatters are not atomic accesses: each element is an access of its own, recorded before all
 * are made. */
static VOID on_atomic_elements(struct pin_thread *s, UINT32 site, UINT32 code, IMULTI_ELEMENT_OPERAND *m)
{
    each_element(m, [&](ADDRINT a, UINT32 n) {
        struct mt_core_operand o = {a, site, n};
        access_begin(s, code, &o, 1);
    });
    if (s->core)
        mt_core_atomic_end(s->core, NULL, 0, 0);
}

static VOID on_end(struct pin_thread *s)
{
    pin_finish(s);
}

static VOID on_end_cas(struct pin_thread *s, ADDRINT flags)
{
    const ADDRINT zero_flag = 1u << 6; /* set: it wrote */
    if (s->core)
        mt_core_atomic_end(s->core, NULL, 0, !(flags & zero_flag));
}

/* ---- instrumentation ---- */

static VOID add_size(IARGLIST args, const struct pin_operand *o, BOOL always)
{
    if (o->size)
        IARGLIST_AddArguments(args, IARG_UINT32, always ? o->size : 0, IARG_END); /* 0: the site's size */
    else
        IARGLIST_AddArguments(args, o->reads ? IARG_MEMORYREAD_SIZE : IARG_MEMORYWRITE_SIZE, IARG_END);
}

static VOID insert_elements(INS ins, AFUNPTR f, const struct pin_insn *n, const struct pin_operand *o,
                            UINT32 site)
{
    INS_InsertPredicatedCall(ins, IPOINT_BEFORE, f, IARG_REG_VALUE, pin_register, IARG_UINT32, site,
                             IARG_UINT32, n->code, IARG_MULTI_ELEMENT_OPERAND,
                             INS_MemoryOperandIndexToOperandIndex(ins, o->memop), IARG_END);
}

static VOID insert_operand(INS ins, const struct pin_insn *n, UINT32 i, UINT32 site)
{
    const struct pin_operand *o = &n->operand[i];
    BOOL insn = mt_pin_mode == MT_CORE_INSN;
    AFUNPTR f = n->code == MT_CODE_DATA ? (AFUNPTR)pin_on_data : (AFUNPTR)pin_on_access;
    if (o->scattered) {
        insert_elements(ins, insn ? (AFUNPTR)on_insn_elements : (AFUNPTR)on_elements, n, o, site);
        return;
    }
    IARGLIST size = IARGLIST_Alloc();
    add_size(size, o, FALSE);
    if (insn)
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)on_insn_operand, IARG_REG_VALUE, pin_register,
                                 IARG_UINT32, site, IARG_MEMORYOP_EA, o->memop, IARG_IARGLIST, size,
                                 IARG_END);
    else
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, f, IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE, pin_register,
                                 IARG_UINT32, site, IARG_MEMORYOP_EA, o->memop, IARG_IARGLIST, size,
                                 IARG_END);
    IARGLIST_Free(size);
}

static VOID insert_begin(INS ins, const struct pin_insn *n)
{
    static const AFUNPTR begin[] = {(AFUNPTR)on_begin1, (AFUNPTR)on_begin2, (AFUNPTR)on_begin3};
    IARGLIST operands = IARGLIST_Alloc();
    for (UINT32 i = 0; i < n->count; i++) {
        IARGLIST_AddArguments(operands, IARG_MEMORYOP_EA, n->operand[i].memop, IARG_END);
        add_size(operands, &n->operand[i], TRUE);
    }
    INS_InsertPredicatedCall(ins, IPOINT_BEFORE, begin[n->count - 1], IARG_REG_VALUE, pin_register,
                             IARG_UINT32, n->site, IARG_UINT32, n->code, IARG_IARGLIST, operands, IARG_END);
    IARGLIST_Free(operands);
}

static VOID insert_end(INS ins, IPOINT where, const struct pin_insn *n)
{
    if (n->cas && where == IPOINT_AFTER)
        INS_InsertCall(ins, where, (AFUNPTR)on_end_cas, IARG_REG_VALUE, pin_register, IARG_REG_VALUE,
                       LEVEL_BASE::REG_GFLAGS, IARG_END);
    else
        INS_InsertCall(ins, where, (AFUNPTR)on_end, IARG_REG_VALUE, pin_register, IARG_END);
}

static VOID instrument_atomic(INS ins, const struct pin_insn *n)
{
    if (n->operand[0].scattered) {
        insert_elements(ins, (AFUNPTR)on_atomic_elements, n, &n->operand[0], n->site);
        return;
    }
    BOOL after = INS_IsValidForIpointAfter(ins), taken = INS_IsValidForIpointTakenBranch(ins);
    insert_begin(ins, n);
    if (after)
        insert_end(ins, IPOINT_AFTER, n);
    if (taken)
        insert_end(ins, IPOINT_TAKEN_BRANCH, n);
    if (!after && !taken) /* no event will follow: rather not atomic than a lock that is kept */
        insert_end(ins, IPOINT_BEFORE, n);
}

static ADDRINT main_low[16], main_high[16];
static UINT32 main_regions;

static BOOL in_main(ADDRINT ip)
{
    for (UINT32 i = 0; i < main_regions; i++)
        if (ip >= main_low[i] && ip <= main_high[i])
            return TRUE;
    return FALSE;
}

static VOID instrument_insn(INS ins)
{
    struct pin_insn n;
    if (!in_main(INS_Address(ins)))
        return;
    pin_insn_of(ins, &n);
    if (!n.site)
        return;
    INS_InsertCall(ins, IPOINT_BEFORE, (AFUNPTR)pin_on_insn, IARG_REG_VALUE, pin_register, IARG_UINT32,
                   n.site, IARG_END);
    for (UINT32 i = 0; i < n.count; i++)
        insert_operand(ins, &n, i, n.site + 1 + i);
}

static VOID on_instruction(INS ins, VOID *)
{
    struct pin_insn n;
    if (mt_pin_mode == MT_CORE_INSN) {
        instrument_insn(ins);
        return;
    }
    pin_calls_instruction(ins);
    pin_insn_of(ins, &n);
    if (n.code == MT_CODE_NONE && n.count)
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)pin_on_left_out, IARG_REG_VALUE, pin_register,
                                 IARG_UINT32, n.count, IARG_END);
    if (!n.site)
        return;
    if (mt_pin_mode == MT_CORE_ATOMIC)
        instrument_atomic(ins, &n);
    else
        for (UINT32 i = 0; i < n.count; i++)
            insert_operand(ins, &n, i, n.site + i);
}

static VOID on_image(IMG img, VOID *)
{
    if (IMG_IsMainExecutable(img)) {
        mt_core_globals(IMG_Name(img).c_str(), IMG_LoadOffset(img));
        for (UINT32 i = 0; i < IMG_NumRegions(img) && main_regions < 16; i++, main_regions++) {
            main_low[main_regions] = IMG_RegionLowAddress(img, i);
            main_high[main_regions] = IMG_RegionHighAddress(img, i);
        }
    }
    if (mt_pin_mode == MT_CORE_INSN)
        return;
    if (pin_code(img) == MT_CODE_ALL)
        mt_core_data(IMG_Name(img).c_str(), IMG_LoadOffset(img));
    pin_calls_image(img);
}

static VOID on_image_gone(IMG img, VOID *)
{
    pin_sites_forget(IMG_LowAddress(img), IMG_HighAddress(img));
}

static VOID pin_access_init(VOID)
{
    IMG_AddInstrumentFunction(on_image, NULL);
    IMG_AddUnloadFunction(on_image_gone, NULL);
    INS_AddInstrumentFunction(on_instruction, NULL);
}

/* Threads of the program, their system calls and signals, forks. */

/* PinCRT's headers are older. */
#ifndef SYS_execveat
#define SYS_execveat 322
#endif

enum { PAGE = 4096, TURN_ON = 10 /* SIGUSR1 */, TURN_OFF = 12 /* SIGUSR2 */, NO_CALL = -1 };

static TLS_KEY key;
static struct pin_thread untraced = {~(ADDRINT)0, NULL, NULL, 0, 0, 0, 0, {0, 0, 0}, 0};
static ADDRINT program_break; /* 0: unknown yet */

static struct pin_thread *threads_self(THREADID tid)
{
    struct pin_thread *s = (struct pin_thread *)PIN_GetThreadData(key, tid);
    return s ? s : &untraced;
}

static VOID on_thread_start(THREADID tid, CONTEXT *ctxt, INT32, VOID *)
{
    struct pin_thread *s = (struct pin_thread *)calloc(1, sizeof *s);
    PIN_SetContextReg(ctxt, pin_register, (ADDRINT)(s ? s : &untraced));
    if (!s)
        return;
    s->watch = ~(ADDRINT)0;
    s->syscall = (ADDRINT)NO_CALL;
    s->core = mt_core_thread_start((uint64_t)mt_sys(SYS_gettid, 0, 0, 0, 0, 0, 0));
    PIN_SetThreadData(key, s, tid);
}

static VOID on_thread_end(THREADID tid, const CONTEXT *, INT32, VOID *)
{
    struct pin_thread *s = threads_self(tid);
    if (s == &untraced)
        return;
    pin_finish(s);
    if (s->core)
        mt_core_thread_end(s->core);
    s->core = NULL;
    pin_calls_free(s);
    PIN_SetThreadData(key, NULL, tid);
    free(s);
}

/* ---- system calls ---- */

static ADDRINT threads_pages(ADDRINT bytes)
{
    return (bytes + PAGE - 1) & ~(ADDRINT)(PAGE - 1);
}

static VOID pin_on_syscall(THREADID tid, CONTEXT *ctxt, SYSCALL_STANDARD std, VOID *)
{
    struct pin_thread *s = threads_self(tid);
    pin_finish(s); /* no lock is held while the kernel works */
    if (s == &untraced)
        return;
    s->syscall = PIN_GetSyscallNumber(ctxt, std);
    for (UINT32 i = 0; i < 3; i++)
        s->syscall_args[i] = PIN_GetSyscallArgument(ctxt, std, i);
    s->syscall_ip = PIN_GetContextReg(ctxt, LEVEL_BASE::REG_INST_PTR);
    /* Ends tracing before an exec, which Pin does not follow and our buffers would not survive. */
    if ((s->syscall == SYS_execve && mt_sys(SYS_access, (long)s->syscall_args[0], 1, 0, 0, 0, 0) == 0) ||
        s->syscall == SYS_execveat)
        mt_core_stop(0);
    /* Now: afterwards another thread may have got the range. */
    if (s->core && s->syscall == SYS_munmap && s->syscall_args[0] % PAGE == 0 && s->syscall_args[1])
        mt_core_unmap(s->core, s->syscall_args[0], threads_pages(s->syscall_args[1]));
}

static VOID threads_broke(struct pin_thread *s, ADDRINT now)
{
    ADDRINT was = __atomic_exchange_n(&program_break, now, __ATOMIC_RELAXED);
    if (was && was != now)
        mt_core_brk(s->core, was, now, s->syscall_ip);
}

static VOID on_syscall_done(THREADID tid, CONTEXT *ctxt, SYSCALL_STANDARD std, VOID *)
{
    struct pin_thread *s = threads_self(tid);
    ADDRINT number = s->syscall, result = PIN_GetSyscallReturn(ctxt, std), *a = s->syscall_args;
    if (s == &untraced)
        return;
    s->syscall = (ADDRINT)NO_CALL;
    if (!s->core || result > ~(ADDRINT)4095) /* -1..-4095: errno */
        return;
    if (number == SYS_mmap)
        mt_core_alloc(s->core, MT_CORE_MMAP, result, threads_pages(a[1]), s->syscall_ip);
    else if (number == SYS_mremap)
        mt_core_remap(s->core, a[0], threads_pages(a[1]), result, threads_pages(a[2]), s->syscall_ip);
    else if (number == SYS_brk)
        threads_broke(s, result);
}

/* ---- signals, forks ---- */

static VOID on_context_change(THREADID tid, CONTEXT_CHANGE_REASON reason, const CONTEXT *, CONTEXT *, INT32,
                              VOID *)
{
    struct pin_thread *s = threads_self(tid);
    if (mt_pin_mode == MT_CORE_ATOMIC && s->core) {
        mt_core_atomic_drop(s->core, NULL); /* still held: the instruction faulted and did not execute */
        mt_core_context_change(s->core);
    }
    if (reason == CONTEXT_CHANGE_REASON_FATALSIGNAL)
        mt_core_stop(1);
}

/* Consumes the signal: the program does not see it. */
static BOOL on_switch(THREADID, INT32 signal, CONTEXT *, BOOL, const EXCEPTION_INFO *, VOID *)
{
    mt_core_switch(signal == TURN_ON);
    return FALSE;
}

static VOID on_fork(THREADID tid, const CONTEXT *, VOID *)
{
    pin_finish(threads_self(tid));
}

static VOID on_fork_child(THREADID, const CONTEXT *, VOID *)
{
    mt_core_forked();
}

static VOID on_fork_parent(THREADID, const CONTEXT *, VOID *)
{
    mt_core_child();
}

static VOID pin_threads_init(const struct mt_core_options *o)
{
    key = PIN_CreateThreadDataKey(NULL);
    PIN_AddThreadStartFunction(on_thread_start, NULL);
    PIN_AddThreadFiniFunction(on_thread_end, NULL);
    PIN_AddSyscallEntryFunction(pin_on_syscall, NULL);
    PIN_AddSyscallExitFunction(on_syscall_done, NULL);
    PIN_AddContextChangeFunction(on_context_change, NULL);
    PIN_AddForkFunction(FPOINT_BEFORE, on_fork, NULL);
    PIN_AddForkFunction(FPOINT_AFTER_IN_CHILD, on_fork_child, NULL);
    PIN_AddForkFunction(FPOINT_AFTER_IN_PARENT, on_fork_parent, NULL);
    if (o->signal)
        for (INT32 signal : {(INT32)TURN_ON, (INT32)TURN_OFF}) {
            PIN_InterceptSignal(signal, on_switch, NULL);
            PIN_UnblockSignal(signal, TRUE);
        }
}

/* ---- Start and end: knobs, the core, the writing thread ---- */

/* ---- options ---- */

struct option {
    char letter;
    const char *name, *values, *help;
    BOOL list;
};
static const struct option options[] = {
#define MT_IS_LIST_STRING FALSE
#define MT_IS_LIST_NUMBER FALSE
#define MT_IS_LIST_POWER FALSE
#define MT_IS_LIST_SWITCH FALSE
#define MT_IS_LIST_LIST TRUE
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {letter, name, values, help, MT_IS_LIST_##kind},
#include "base/host_options.def"
};
#define OPTIONS (sizeof options / sizeof *options)

/* All knobs are words, parsed by the core as for the other engines. They append, so that a missing one has
 * no value. Pin keeps a list of all knobs for its own life. */
typedef KNOB<std::string> Knob;
static Knob *mode, *letters[OPTIONS], *names[OPTIONS];

static Knob *pin_knob(const std::string &name, const struct option *o)
{
    return new Knob(KNOB_MODE_APPEND, "pintool", name, "", std::string(o->help) + " (" + o->values + ")");
}

static VOID make_knobs(VOID)
{
    mode = new Knob(KNOB_MODE_WRITEONCE, "pintool", "mode", "mat", "what to trace: mat, atomic or insn");
    for (UINT32 i = 0; i < OPTIONS; i++) {
        names[i] = pin_knob(options[i].name, &options[i]);
        letters[i] = options[i].letter ? pin_knob(std::string(1, options[i].letter), &options[i]) : NULL;
    }
}

static VOID add_words(std::vector<std::string> &words, const struct option *o, Knob *k)
{
    for (UINT32 i = 0; k && i < k->NumberOfValues(); i++)
        words.push_back(std::string("--") + o->name + "=" + k->Value(i));
}

/* The words are never freed: the core keeps pointers into them. */
static struct mt_core_options *read_options(std::string *why)
{
    std::vector<std::string> &words = *new std::vector<std::string>;
    std::vector<char *> argv;
    static struct mt_core_options read;
    char text[512] = "";
    words.push_back(mode->Value());
    for (UINT32 i = 0; i < OPTIONS; i++) {
        add_words(words, &options[i], letters[i]);
        add_words(words, &options[i], names[i]);
    }
    for (std::string &w : words)
        argv.push_back(const_cast<char *>(w.c_str()));
    if (mt_core_options_parse(&read, (int)argv.size(), argv.data(), text, sizeof text) == 0)
        return &read;
    *why = text;
    return NULL;
}

/* ---- the writing thread ---- */

/* Only one is made, and only from main: Pin starts no internal thread later. */
static struct {
    void (*run)(void *);
    void *arg;
    UINT32 state; /* 1 started, 2 at its end */
} worker;

static VOID pin_work(VOID *)
{
    worker.run(worker.arg);
    __atomic_store_n(&worker.state, 2u, __ATOMIC_RELEASE);
}

static int pin_spawn(void (*run)(void *), void *arg, void **handle)
{
    const int again = 11; /* EAGAIN */
    if (worker.state)
        return again;
    worker.run = run;
    worker.arg = arg;
    if (PIN_SpawnInternalThread(pin_work, NULL, 0, NULL) == INVALID_THREADID)
        return again;
    worker.state = 1;
    *handle = &worker;
    return 0;
}

/* Waits ten seconds at most: when the process is torn down the thread may vanish without notice. */
static void pin_join(void *)
{
    for (UINT32 i = 0; i < 10000 && __atomic_load_n(&worker.state, __ATOMIC_ACQUIRE) != 2; i++)
        PIN_Sleep(1);
}

static void pin_yield(void)
{
    PIN_Yield();
}

/* ---- start and end ---- */

static VOID on_prepare(VOID *) /* internal threads still run */
{
    mt_core_stop(0);
}

static VOID on_program_end(INT32, VOID *)
{
    mt_core_stop(0);
}

/* Returns the command after "--" on Pin's command line. */
static const char *program_of(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return argv[i + 1];
    return NULL;
}

static int pin_fail(const std::string &why)
{
    fprintf(stderr, "memtrace: %s\n", why.c_str());
    return 2;
}

int main(int argc, char *argv[])
{
    static struct mt_core_engine engine;
    char text[512] = "";
    std::string why;
    make_knobs();
    PIN_InitSymbols();
    if (PIN_Init(argc, argv)) {
        fprintf(stderr,
                "usage: pin -t mt-host.so -mode mat|atomic|insn [OPTION VALUE]... -- PROGRAM "
                "[ARGUMENT]...\n\n%s\n",
                KNOB_BASE::StringKnobSummary().c_str());
        return 2;
    }
    struct mt_core_options *o = read_options(&why);
    if (!o)
        return pin_fail(why);
    mt_pin_mode = o->mode;
    pin_register = PIN_ClaimToolRegister();
    if (!REG_valid(pin_register))
        return pin_fail("Pin has no register left for the tool");
    engine.name = "pin";
    engine.program = program_of(argc, argv);
    engine.locate = pin_locate;
    engine.plain = pin_plain;
    engine.yield = pin_yield;
    engine.spawn = pin_spawn;
    engine.join = pin_join;
    if (mt_core_start(o, &engine, text, sizeof text) != 0)
        return pin_fail(text);
    pin_threads_init(o);
    pin_access_init();
    PIN_AddPrepareForFiniFunction(on_prepare, NULL);
    PIN_AddFiniFunction(on_program_end, NULL);
    PIN_StartProgram(); /* does not return */
    return 0;
}
