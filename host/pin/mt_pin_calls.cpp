/* Entries and returns of functions: -f, --routine, annotations, and the malloc family. Entries are seen at
 * the routine, returns at return instructions by the stack pointer, which is the same at a function's
 * entry and return. This covers tail calls, and functions left by longjmp or an exception, which a later
 * return shows to be gone. IPOINT_AFTER of a routine covers neither, and is unreliable for allocators in
 * newer kits. */
#include "mt_pin.h"
#include <stdlib.h>
#include <string.h>

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

static ADDRINT bytes_of(const struct mt_pin_frame *f)
{
    ADDRINT bytes;
    INT32 which = allocators[f->function].size;
    if (f->what == REALLOCARRAY)
        return __builtin_mul_overflow(f->args[1], f->args[2], &bytes) ? 0 : bytes;
    if (which < 0)
        return __builtin_mul_overflow(f->args[0], f->args[1], &bytes) ? 0 : bytes;
    return f->args[which];
}

static VOID before_allocator(struct mt_core_thread *t, const struct mt_pin_frame *f)
{
    BOOL reallocs = f->what == REALLOC || f->what == REALLOCARRAY;
    if (f->what == FREE || (reallocs && f->args[0] && bytes_of(f) == 0)) {
        if (f->args[0])
            mt_core_free(t, f->args[0]);
    } else if (reallocs && f->args[0]) {
        mt_core_realloc_begin(t, f->args[0]);
    }
}

static VOID after_allocator(struct mt_core_thread *t, const struct mt_pin_frame *f, ADDRINT value)
{
    const struct allocator *a = &allocators[f->function];
    ADDRINT base = value, bytes = bytes_of(f);
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
    if (mt_core_options()->others == MT_CODE_DATA && mt_pin_keeps(f->ip))
        mt_core_alloc_keep(base);
}

static VOID set_watch(struct mt_pin_thread *s)
{
    s->watch = s->count ? s->frames[s->count - 1].sp : NO_WATCH;
}

/* Leaves the function: by a return, or (returned 0) some other way. */
static VOID calls_pop(struct mt_pin_thread *s, BOOL returned, ADDRINT value)
{
    struct mt_pin_frame f = s->frames[--s->count];
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

static struct mt_pin_frame *calls_push(struct mt_pin_thread *s)
{
    if (s->count == s->room) {
        UINT32 room = s->room ? 2 * s->room : 32;
        void *frames = realloc(s->frames, room * sizeof *s->frames);
        if (!frames)
            return NULL;
        s->frames = (struct mt_pin_frame *)frames;
        s->room = room;
    }
    return &s->frames[s->count++];
}

static VOID on_call(struct mt_pin_thread *s, UINT32 what, UINT32 function, ADDRINT sp, ADDRINT back,
                    ADDRINT a0, ADDRINT a1, ADDRINT a2)
{
    const uint64_t args[3] = {a0, a1, a2};
    mt_pin_finish(s);
    if (!s->core) {
        if (what == FUNCTION)
            mt_core_call(NULL, function, sp, args);
        return;
    }
    while (s->count && s->frames[s->count - 1].sp < sp && sp - s->frames[s->count - 1].sp < STACK)
        calls_pop(s, FALSE, 0);
    struct mt_pin_frame *f = calls_push(s);
    if (f) {
        *f = mt_pin_frame{sp, back - 1, what, function, FALSE, {a0, a1, a2}};
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

static ADDRINT PIN_FAST_ANALYSIS_CALL is_watched(struct mt_pin_thread *s, ADDRINT sp)
{
    return sp >= s->watch;
}

static VOID on_return(struct mt_pin_thread *s, ADDRINT sp, ADDRINT value)
{
    mt_pin_finish(s);
    while (s->count && s->frames[s->count - 1].sp <= sp && sp - s->frames[s->count - 1].sp < STACK)
        calls_pop(s, s->frames[s->count - 1].sp == sp, value);
    set_watch(s);
}

VOID mt_pin_calls_free(struct mt_pin_thread *s)
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
    RTN_InsertCall(rtn, IPOINT_BEFORE, (AFUNPTR)on_call, IARG_REG_VALUE, mt_pin_register, IARG_UINT32, what,
                   IARG_UINT32, function, IARG_REG_VALUE, LEVEL_BASE::REG_STACK_PTR, IARG_RETURN_IP,
                   IARG_FUNCARG_ENTRYPOINT_VALUE, 0, IARG_FUNCARG_ENTRYPOINT_VALUE, 1,
                   IARG_FUNCARG_ENTRYPOINT_VALUE, 2, IARG_END);
    RTN_Close(rtn);
}

static BOOL is_routine(const char *name)
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
            if (!atomic && is_routine(name.c_str()))
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

VOID mt_pin_calls_image(IMG img)
{
    hook_named(img);
    hook_allocators(img);
}

VOID mt_pin_calls_instruction(INS ins)
{
    if (!INS_IsRet(ins))
        return;
    INS_InsertIfCall(ins, IPOINT_BEFORE, (AFUNPTR)is_watched, IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE,
                     mt_pin_register, IARG_REG_VALUE, LEVEL_BASE::REG_STACK_PTR, IARG_END);
    INS_InsertThenCall(ins, IPOINT_BEFORE, (AFUNPTR)on_return, IARG_REG_VALUE, mt_pin_register,
                       IARG_REG_VALUE, LEVEL_BASE::REG_STACK_PTR, IARG_REG_VALUE, LEVEL_BASE::REG_GAX,
                       IARG_END);
}
