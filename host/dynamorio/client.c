/* Start and end of the client: options, the core, the writing thread. */
#define _GNU_SOURCE

#include "client.h"
#include "platform.h"
#include "../machine/elements.h"
#include "../machine/modules.h"
#include "../machine/guest.h"
#include "../machine/follow.h"
#include "base/elffile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum mt_plan_kind {
    MT_STEP_NONE,     /* touches no memory, or is not traced */
    MT_STEP_APPEND,   /* operands with addresses known before it: inserted code appends them */
    MT_STEP_CALL,     /* such operands, but by a function call */
    MT_STEP_SWAP,     /* compare-and-swap: its site is known after it */
    MT_STEP_ELEMENTS, /* masks or index vectors determine what it touches */
    MT_STEP_LOST,     /* touches memory in an unknown way */
    MT_STEP_LEFT,     /* left out, and counted when it executes */
};

/* One instruction of the program in a block. The entries of consecutive steps lie in a window, one piece
 * of the buffer. `open`: room is made before this step; `close`: the window is complete after it. */
struct mt_step {
    instr_t *instr;
    const struct mt_insn *insn;
    enum mt_plan_kind kind;
    unsigned slot; /* position of its first entry in the window */
    unsigned open : 1, close : 1, last : 1 /* last step of the block */;
    unsigned exec : 1; /* insn mode: an entry for the instruction itself comes first */
    uint32_t
        avoid; /* registers that the window's addresses need or its code changes: bit 0 rax … bit 15 r15 */
    opnd_t operand[MT_X86_OPERANDS];
    uint32_t size[MT_X86_OPERANDS]; /* 0: the site's size */
    uint8_t which[MT_X86_OPERANDS]; /* index in insn of operand[i] */
    unsigned count;
};

struct mt_plan {
    struct mt_step *step;
    unsigned count, room;
    enum mt_core_code code;
    unsigned left;  /* accesses of the block that are left out, counted at its start */
    unsigned next;  /* step to insert next */
    int repeated;   /* 1: a rep instruction was made a loop here */
    unsigned begin; /* first step of the window */
    unsigned used;  /* number of its entries */
    uint32_t avoid;
    uint32_t written; /* registers that the program changed since the window was opened */
};

/* Atomic and insn mode into a compact trace: threads take turns, so that a thread's appends during its
 * turn are in the order of its accesses, without a lock for each. A waiting thread asks the holder to
 * check (mt_core_thread.limit), which it does at its next window, or at the next round of a loop without
 * accesses. */

enum { LAST_MS = 300, STEP_US = 200 };

static struct mt_client_thread *turn_of(struct mt_baton_hand *h)
{
    return (struct mt_client_thread *)((char *)h - offsetof(struct mt_client_thread, hand));
}

/* Threads that have ended stay in memory (process_old): `h` may belong to one. */
static void turn_asked(struct mt_baton_hand *h)
{
    struct mt_core_thread *core = turn_of(h)->core;
    __atomic_store_n(&turn_of(h)->asked, 1u, __ATOMIC_RELAXED);
    if (core)
        __atomic_store_n(&core->limit, NULL, __ATOMIC_SEQ_CST);
}

static void turn_stolen(struct mt_baton_hand *h)
{
    struct mt_core_thread *core = turn_of(h)->core;
    if (core)
        mt_core_turn_stolen(core);
}

/* Turns of threads. hold: the calling thread `t` waits until it has the turn; yield: lets others have theirs
 * on request, and comes back; leave: gives the turn away. They do nothing without turns. */
static void turn_start(void)
{
    mt_baton_asked = turn_asked;
    mt_baton_stolen = turn_stolen;
    mt_baton_step_us = STEP_US;
}

static int turn_take(struct mt_client_thread *t, unsigned ms)
{
    int rc = mt_baton_take(&t->hand, ms);
    __atomic_store_n(&t->asked, 0u, __ATOMIC_RELAXED);
    if (rc == 0 && t->core)
        mt_core_turn_begin(t->core);
    return rc;
}

static void turn_hold(struct mt_client_thread *t)
{
    if (mt_client.turns && !mt_client.forked && mt_baton_holder != &t->hand && mt_core_on())
        turn_take(t, 0);
}

static void turn_leave(struct mt_client_thread *t)
{
    if (!mt_client.turns || mt_client.forked || mt_baton_holder != &t->hand)
        return;
    if (t->core)
        mt_core_turn_end(t->core);
    mt_baton_give(&t->hand);
}

static void turn_yield(struct mt_client_thread *t)
{
    if (mt_client.turns && mt_baton_holder == &t->hand && __atomic_load_n(&t->asked, __ATOMIC_RELAXED) &&
        mt_baton_wanted(&t->hand))
        turn_leave(t);
    turn_hold(t);
}

/* Takes the turn at the program's end; waits for some tenths of a second at most. */
static void turn_last(struct mt_client_thread *t)
{
    if (mt_client.turns && !mt_client.forked && mt_baton_holder != &t->hand && mt_core_on())
        turn_take(t, LAST_MS);
}

/* Functions of interest: drwrap sees entries, inserted code sees returns; machine/calls.h handles them. */

static void client_look(struct mt_client_thread *t);
static void client_others(struct mt_client_thread *t, const struct mt_core_operand *o, unsigned n,
                          uint64_t ip);

/* Records the program's memory that a copy of the CUDA runtime reads. */
static void functions_copied(struct mt_client_thread *t, const uint64_t args[3])
{
    struct mt_core_operand o = {args[0], 0, (uint32_t)args[1]};
    client_look(t);
    t->hand.inside++;
    client_others(t, &o, 1, mt_calls_site(&t->calls));
    t->hand.inside--;
}

static void insert_return(app_pc to);
static struct mt_client_thread *client_thread(void *drcontext);

static void functions_entered(void *wrap, void **user)
{
    struct mt_client_thread *t = client_thread(drwrap_get_drcontext(wrap));
    const struct mt_watch *w = *user;
    dr_mcontext_t *m = drwrap_get_mcontext_ex(wrap, DR_MC_INTEGER | DR_MC_CONTROL);
    if (!t || !t->core || !m || mt_client.forked)
        return;
    uint64_t args[3] = {m->xdi, m->xsi, m->xdx};
    app_pc back = drwrap_get_retaddr(wrap);
    if (w->alloc == MT_FN_READ) {
        functions_copied(t, args);
        return;
    }
    insert_return(back);
    client_look(t);
    t->hand.inside++;
    mt_calls_enter(&t->calls, t->core, w, m->xsp, m->xbp, (uint64_t)(uintptr_t)back - 1, args);
    t->hand.inside--;
    client_look(t); /* inside the CUDA runtime nothing is traced: calls.h counts the depth */
}

/* ---- selection ---- */

enum { FOUND_MAX = 1 << 16 };

static struct {
    struct mt_spin lock;
    const struct mt_watch *item[FOUND_MAX];
    unsigned count, wrapped;
} found;

/* Allocators, routines, annotations. `found` only takes note, for mt_modules_start. */
static void functions_found(const struct mt_watch *w)
{
    mt_spin_lock(&found.lock);
    if (found.count < FOUND_MAX)
        found.item[found.count++] = w;
    mt_spin_unlock(&found.lock);
}

static void functions_wrap(void)
{
    for (;;) {
        mt_spin_lock(&found.lock);
        const struct mt_watch *w = found.wrapped < found.count ? found.item[found.wrapped++] : NULL;
        mt_spin_unlock(&found.lock);
        if (!w)
            return;
        drwrap_wrap_ex((app_pc)(uintptr_t)w->address, functions_entered, NULL, (void *)w,
                       DRWRAP_CALLCONV_AMD64);
    }
}

/* ---- The plan of insertions into a block of code ---- */

/* A window keeps one register. Limit of registers that its addresses need or its code changes: drreg loses
 * the value it keeps in a register that the program changes and never reads. */
enum { MOST_REGISTERS = 10 };

static struct mt_spin insns; /* for mt_insn_get: one caller at a time */

static const struct mt_insn *plan_insn(void *drcontext, app_pc pc, enum mt_core_code code)
{
    uint8_t bytes[15];
    int size = decode_sizeof(drcontext, pc, NULL, NULL);
    size_t got = 0;
    if (size <= 0 || size > 15 || !dr_safe_read(pc, (size_t)size, bytes, &got))
        return NULL;
    mt_spin_lock(&insns);
    struct mt_insn *n =
        mt_insn_get((uint64_t)(uintptr_t)pc, bytes, (unsigned)size, mt_client.mode == MT_CORE_INSN, code);
    if (n && !n->elements_known) {
        n->elements = mt_elements_form(n->bytes, n->x86.length);
        n->elements_known = 1;
    }
    mt_spin_unlock(&insns);
    return n;
}

/* ---- operands ---- */

static unsigned plan_register(reg_id_t r)
{
    if (r == DR_REG_NULL || !reg_is_gpr(r))
        return MT_X86_NO_REG;
    return (unsigned)(reg_to_pointer_sized(r) - DR_REG_START_64);
}

static uint32_t plan_bit(reg_id_t r)
{
    unsigned n = plan_register(r);
    return n == MT_X86_NO_REG ? 0 : 1u << n;
}

static uint32_t plan_bits(opnd_t o)
{
    return opnd_is_base_disp(o) ? plan_bit(opnd_get_base(o)) | plan_bit(opnd_get_index(o)) : 0;
}

static int plan_same(opnd_t o, const struct mt_x86_operand *x)
{
    if (!opnd_is_memory_reference(o))
        return 0;
    if (!opnd_is_base_disp(o))
        return x->base == MT_X86_NO_REG;
    return plan_register(opnd_get_base(o)) == x->base;
}

static uint32_t plan_writes(instr_t *instr)
{
    uint32_t bits = 0;
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t o = instr_get_dst(instr, (uint)i);
        bits |= opnd_is_reg(o) ? plan_bit(opnd_get_reg(o)) : 0;
    }
    return bits;
}

/* Sets *found to DynamoRIO's operand for one of ours. Returns 0, or -1 if there is none. */
static int plan_operand(instr_t *instr, const struct mt_x86_operand *x, opnd_t *found)
{
    int load = x->op == MT_HOST_LOAD, n = load ? instr_num_srcs(instr) : instr_num_dsts(instr), only = 0;
    opnd_t any = opnd_create_null();
    for (int i = 0; i < n; i++) {
        opnd_t o = load ? instr_get_src(instr, (uint)i) : instr_get_dst(instr, (uint)i);
        if (plan_same(o, x)) {
            *found = o;
            return 0;
        }
        if (opnd_is_memory_reference(o)) {
            any = o;
            only++;
        }
    }
    *found = any;
    return only == 1 ? 0 : -1;
}

static void plan_operands(struct mt_step *s)
{
    const struct mt_insn *n = s->insn;
    for (unsigned i = 0; i < n->x86.count; i++) {
        opnd_t o;
        if (plan_operand(s->instr, &n->x86.operand[i], &o) != 0 || instr_get_opcode(s->instr) == OP_enter) {
            s->kind = MT_STEP_LOST;
            return;
        }
        if (n->operand[i].parts == MT_X86_EACH)
            s->size[s->count] = drutil_opnd_mem_size_in_bytes(o, s->instr);
        s->which[s->count] = (uint8_t)i;
        s->operand[s->count++] = o;
        s->avoid |= plan_bits(o);
    }
}

static enum mt_plan_kind plan_kind(const struct mt_insn *n)
{
    if ((!n->site && n->code != MT_CODE_NONE) || !n->x86.count)
        return MT_STEP_NONE;
    if (n->elements)
        return MT_STEP_ELEMENTS;
    return n->x86.cas ? MT_STEP_SWAP : MT_STEP_APPEND;
}

/* ---- windows ---- */

static unsigned plan_popcount(uint32_t v)
{
    return (unsigned)__builtin_popcount(v);
}

static void plan_close(struct mt_plan *p)
{
    unsigned last = p->count;
    if (!p->used)
        return;
    for (unsigned i = p->begin; i < p->count; i++)
        if (p->step[i].kind == MT_STEP_APPEND)
            last = i;
    for (unsigned i = p->begin; i <= last && i < p->count; i++)
        p->step[i].avoid = p->avoid;
    p->step[last].close = 1;
    p->used = 0;
    p->avoid = 0;
}

/* Puts a step, which p->count does not include yet, into a window. */
static void plan_window(struct mt_plan *p, struct mt_step *s)
{
    if (s->kind == MT_STEP_NONE)
        return;
    if (s->kind != MT_STEP_APPEND) {
        plan_close(p);
        return;
    }
    unsigned entries = s->exec + s->count;
    if (p->used && (p->used + entries > MT_CORE_SLACK ||
                    plan_popcount(p->avoid | p->written | s->avoid) > MOST_REGISTERS))
        plan_close(p);
    if (!p->used) {
        s->open = 1;
        p->begin = p->count;
        p->written = 0;
    }
    s->slot = p->used;
    p->used += entries;
    p->avoid |= p->written | s->avoid;
}

/* ---- a block ---- */

/* Plans code that is left out: an instruction that must be handled where it executes gets a step. */
static void plan_left(struct mt_plan *p, struct mt_step *s)
{
    if (s->kind != MT_STEP_ELEMENTS && !p->repeated) {
        p->left += s->insn->x86.count;
        return;
    }
    s->kind = s->kind == MT_STEP_ELEMENTS ? s->kind : MT_STEP_LEFT;
    s->count = s->insn->x86.count;
    p->step[p->count++] = *s;
}

static void plan_add(struct mt_plan *p, void *drcontext, instr_t *instr)
{
    app_pc pc = instr_get_app_pc(instr);
    const struct mt_insn *n = pc ? plan_insn(drcontext, pc, p->code) : NULL;
    struct mt_step s = {.instr = instr, .insn = n};
    if (!n || (p->repeated && !instr_reads_memory(instr) && !instr_writes_memory(instr)))
        return;
    if (mt_modules_watch(n->x86.ip)) /* a call comes here, which may check the buffer */
        plan_close(p);
    s.kind = plan_kind(n);
    if (p->code == MT_CODE_NONE) {
        if (s.kind != MT_STEP_NONE)
            plan_left(p, &s);
        return;
    }
    if (s.kind == MT_STEP_APPEND || s.kind == MT_STEP_SWAP)
        plan_operands(&s);
    int insn = mt_client.mode == MT_CORE_INSN;
    if (s.kind == MT_STEP_APPEND && (!mt_client_appends() || (mt_client.turns && !insn && s.count != 1)))
        s.kind = MT_STEP_CALL;
    if (insn && mt_client.turns && (s.kind == MT_STEP_NONE || s.kind == MT_STEP_APPEND)) {
        s.kind = MT_STEP_APPEND;
        s.exec = 1;
    }
    if (s.kind == MT_STEP_NONE && mt_client.mode != MT_CORE_INSN)
        return;
    plan_window(p, &s);
    p->step[p->count++] = s;
}

/* Plans all instructions of the program in the block. Returns NULL without memory. */
static struct mt_plan *plan_make(void *drcontext, instrlist_t *bb, int repeated)
{
    unsigned room = 0;
    for (instr_t *i = instrlist_first_app(bb); i; i = instr_get_next_app(i))
        room++;
    struct mt_plan *p = calloc(1, sizeof *p);
    if (!p || (room && !(p->step = calloc(room, sizeof *p->step)))) {
        free(p);
        return NULL;
    }
    p->repeated = repeated;
    instr_t *first = instrlist_first_app(bb);
    p->code = first ? mt_modules_code((uint64_t)(uintptr_t)instr_get_app_pc(first)) : MT_CODE_HIDDEN;
    if (p->code == MT_CODE_HIDDEN)
        return p;
    for (instr_t *i = first; i; i = instr_get_next_app(i)) {
        unsigned before = p->count;
        plan_add(p, drcontext, i);
        p->written |= plan_writes(i);
        if (p->count > before && !instr_get_next_app(i))
            p->step[before].last = 1;
    }
    plan_close(p);
    return p;
}

/* Returns the step of this instruction, or NULL; called in order. */
static const struct mt_step *plan_step(struct mt_plan *p, const instr_t *instr)
{
    if (p->next < p->count && p->step[p->next].instr == instr)
        return &p->step[p->next++];
    return NULL;
}

static void plan_free(struct mt_plan *p)
{
    if (p)
        free(p->step);
    free(p);
}

/* ---- mat mode: code that appends entries to the thread's buffer without a call ---- */

#define CUR ((int)offsetof(struct mt_core_thread, cur))
#define LIMIT ((int)offsetof(struct mt_core_thread, limit))
#define ENTRY ((int)sizeof(struct mt_host_entry))
enum { INSERT_PAGE = 4096 };

/* ---- notes of entries filled ---- */

enum { NOTES = MT_X86_OPERANDS + 1 + MT_CORE_SLACK + 1 };

static ptr_uint_t notes; /* first note: -MT_X86_OPERANDS - 1 entries */

/* mat mode: inserts notes (no code) for faults. From here on, a signal finds `entries` entries at and after
 * cur; a negative number counts entries before cur of an instruction that did not end. */
static void insert_filled(void *drcontext, instrlist_t *bb, instr_t *where, int entries)
{
    instr_t *label = INSTR_CREATE_label(drcontext);
    instr_set_note(label, (void *)(notes + (ptr_uint_t)(entries + MT_X86_OPERANDS + 1)));
    instrlist_meta_preinsert(bb, where, label);
}

/* Returns the value of the last note before `pc`, an address in the copy of one or several blocks that
 * begins at `start`. */
static int insert_filled_at(void *drcontext, instrlist_t *copy, const byte *start, const byte *pc)
{
    int entries = 0;
    for (instr_t *i = instrlist_first(copy); i; i = instr_get_next(i)) {
        ptr_uint_t note = (ptr_uint_t)instr_get_note(i) - notes;
        if (instr_is_label(i)) {
            entries = note < NOTES ? (int)note - MT_X86_OPERANDS - 1 : entries;
            continue;
        }
        start += instr_length(drcontext, i);
        if (start > pc)
            break;
    }
    return entries;
}

/* ---- making room ---- */

static byte *stay; /* mt_client.look for a return that must not fault */

static void insert_room(void)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    if (t)
        client_look(t);
}

static void leave_sometimes(struct mt_client_thread *t);

static void insert_room_or_leave(void)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    if (!t)
        return;
    client_look(t);
    leave_sometimes(t);
}

/* Makes code shared by all blocks: calls f, then returns to mt_client.back. */
static byte *insert_make(byte *to, void (*f)(void))
{
    void *drcontext = dr_get_current_drcontext();
    instrlist_t *code = instrlist_create(drcontext);
    opnd_t back = opnd_create_far_base_disp(mt_client.segment, DR_REG_NULL, DR_REG_NULL, 0,
                                            (int)mt_client.back, OPSZ_PTR);
    instr_t *jump = INSTR_CREATE_jmp_ind(drcontext, back);
    instrlist_meta_append(code, jump);
    dr_insert_clean_call(drcontext, code, jump, (void *)f, true, 0);
    to = instrlist_encode(drcontext, code, to, false);
    instrlist_clear_and_destroy(drcontext, code);
    return to;
}

static void insert_start_room(void)
{
    notes = drmgr_reserve_note_range(NOTES);
    mt_client.look = dr_nonheap_alloc(INSERT_PAGE, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    stay = insert_make(mt_client.look, insert_room_or_leave);
    insert_make(stay, insert_room);
    dr_memory_protect(mt_client.look, INSERT_PAGE, DR_MEMPROT_READ | DR_MEMPROT_EXEC);
}

static void insert_stop_room(void)
{
    if (mt_client.look)
        dr_nonheap_free(mt_client.look, INSERT_PAGE);
}

/* ---- pieces of code ---- */

struct insert_point {
    void *drcontext;
    instrlist_t *bb;
    instr_t *where;
};

static void insert_one(const struct insert_point *at, instr_t *instr)
{
    instrlist_meta_preinsert(at->bb, at->where, instr);
}

static void insert_which(const struct insert_point *at, reg_id_t r)
{
    dr_insert_read_raw_tls(at->drcontext, at->bb, at->where, mt_client.segment, mt_client.slot, r);
}

static void insert_load(const struct insert_point *at, reg_id_t r, reg_id_t from, int offset)
{
    insert_one(at, INSTR_CREATE_mov_ld(at->drcontext, opnd_create_reg(r), OPND_CREATE_MEMPTR(from, offset)));
}

/* Sets p to the first free entry, through the struct's address in r. The thread may leave here and then
 * continues at the program's instruction. */
static void insert_first(const struct insert_point *at, reg_id_t p, reg_id_t r)
{
    instr_t *load = INSTR_CREATE_mov_ld(at->drcontext, opnd_create_reg(p), OPND_CREATE_MEMPTR(r, CUR));
    insert_which(at, r);
    insert_one(at, instr_set_translation(load, instr_get_app_pc(at->where)));
    instr_set_meta_may_fault(load, true);
}

/* Opens a window: p is the first free entry, r is scratch, `look` makes room. */
static void insert_open(const struct insert_point *at, reg_id_t p, reg_id_t r, byte *look)
{
    void *d = at->drcontext;
    instr_t *ok = INSTR_CREATE_label(d), *back = INSTR_CREATE_label(d);
    insert_first(at, p, r);
    insert_one(at, INSTR_CREATE_cmp(d, opnd_create_reg(p), OPND_CREATE_MEMPTR(r, LIMIT)));
    insert_one(at, INSTR_CREATE_jcc(d, OP_jb, opnd_create_instr(ok)));
    instrlist_insert_mov_instr_addr(d, back, NULL, opnd_create_reg(r), at->bb, at->where, NULL, NULL);
    dr_insert_write_raw_tls(d, at->bb, at->where, mt_client.segment, mt_client.back, r);
    insert_one(at, INSTR_CREATE_jmp(d, opnd_create_pc(look)));
    insert_one(at, back);
    insert_first(at, p, r);
    insert_one(at, ok);
}

static int insert_is_plain(opnd_t o)
{
    return opnd_is_base_disp(o) && !opnd_is_far_base_disp(o) && opnd_get_index(o) == DR_REG_NULL &&
           opnd_get_disp(o) == 0 && reg_is_64bit(opnd_get_base(o));
}

/* Inserts one entry. */
static void insert_entry(const struct insert_point *at, const struct mt_step *s, unsigned i, reg_id_t p,
                         reg_id_t r, reg_id_t scratch)
{
    void *d = at->drcontext;
    opnd_t o = s->operand[i];
    int offset = (int)(s->slot + s->exec + i) * ENTRY;
    uint32_t site = s->insn->operand[s->which[i]].site;
    drreg_restore_app_values(d, at->bb, at->where, o, NULL);
    if (insert_is_plain(o)) {
        r = opnd_get_base(o);
    } else if (!drutil_insert_get_mem_addr(d, at->bb, at->where, o, r, scratch)) {
        insert_one(at, XINST_CREATE_load_int(d, opnd_create_reg(r), OPND_CREATE_INT32(0)));
    }
    insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEMPTR(p, offset), opnd_create_reg(r)));
    if (s->size[i] == 0 && site < INT32_MAX) { /* one store for site and size 0 */
        insert_one(at,
                   INSTR_CREATE_mov_st(d, OPND_CREATE_MEM64(p, offset + 8), OPND_CREATE_INT32((int)site)));
        return;
    }
    insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEM32(p, offset + 8), OPND_CREATE_INT32((int)site)));
    insert_one(at,
               INSTR_CREATE_mov_st(d, OPND_CREATE_MEM32(p, offset + 12), OPND_CREATE_INT32((int)s->size[i])));
}

/* Inserts an entry for the instruction itself. */
static void insert_exec(const struct insert_point *at, const struct mt_step *s, reg_id_t p, reg_id_t r)
{
    void *d = at->drcontext;
    int offset = (int)s->slot * ENTRY;
    insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEM64(p, offset), OPND_CREATE_INT32(0)));
    if (s->insn->site < INT32_MAX) {
        insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEM64(p, offset + 8),
                                           OPND_CREATE_INT32((int)s->insn->site)));
        return;
    }
    insert_one(at, INSTR_CREATE_mov_imm(d, opnd_create_reg(r), OPND_CREATE_INT64((int64_t)s->insn->site)));
    insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEM64(p, offset + 8), opnd_create_reg(r)));
}

static void insert_close(const struct insert_point *at, unsigned entries, reg_id_t p, reg_id_t r)
{
    void *d = at->drcontext;
    insert_which(at, r);
    insert_one(at,
               INSTR_CREATE_lea(d, opnd_create_reg(p),
                                opnd_create_base_disp(p, DR_REG_NULL, 0, (int)entries * ENTRY, OPSZ_lea)));
    insert_one(at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEMPTR(r, CUR), opnd_create_reg(p)));
}

/* For code of the C runtime: keeps only accesses to the program's data in a complete window. */
static void insert_chosen(unsigned entries)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    if (!t || !t->core || t->calls.silent || mt_client.forked)
        return;
    struct mt_core_thread *to = *t->slot;
    struct mt_host_entry *kept = to->cur;
    t->hand.inside++;
    for (struct mt_host_entry *e = kept, *end = e + entries; e < end; e++)
        if (mt_core_wants(t->core, MT_CODE_DATA, e->address))
            *kept++ = *e;
    __atomic_store_n(&to->cur, kept, __ATOMIC_RELEASE);
    t->hand.inside--;
}

/* Reserves a register that no address needs. */
static reg_id_t insert_reserve(const struct insert_point *at, uint32_t avoid)
{
    drvector_t allowed;
    reg_id_t r = DR_REG_NULL;
    drreg_init_and_fill_vector(&allowed, true);
    for (unsigned i = 0; i < 16; i++)
        if (avoid >> i & 1)
            drreg_set_vector_entry(&allowed, DR_REG_START_64 + i, false);
    if (drreg_reserve_register(at->drcontext, at->bb, at->where, &allowed, &r) != DRREG_SUCCESS)
        r = DR_REG_NULL;
    drvector_delete(&allowed);
    return r;
}

static void insert_release(const struct insert_point *at, reg_id_t r)
{
    drreg_unreserve_register(at->drcontext, at->bb, at->where, r);
}

static int insert_far(const struct mt_step *s)
{
    for (unsigned i = 0; i < s->count; i++)
        if (opnd_is_far_base_disp(s->operand[i]) || instr_get_opcode(s->instr) == OP_xlat)
            return 1;
    return 0;
}

/* mat mode: inserts the entries of a MT_STEP_APPEND. *window is the register that points into the buffer,
 * kept from the step that opens a window to the one that closes it; DR_REG_NULL outside. */
static void insert_append(void *drcontext, instrlist_t *bb, const struct mt_step *s, reg_id_t *window)
{
    struct insert_point at = {drcontext, bb, s->instr};
    if (s->open) {
        *window = insert_reserve(&at, s->avoid);
        if (*window == DR_REG_NULL)
            return;
    }
    reg_id_t p = *window, r, scratch = DR_REG_NULL;
    if (p == DR_REG_NULL)
        return;
    r = insert_reserve(&at, s->avoid);
    if (insert_far(s))
        scratch = insert_reserve(&at, s->avoid);
    if (s->open) {
        drreg_reserve_aflags(drcontext, bb, s->instr);
        insert_open(&at, p, r, mt_client.look);
        drreg_unreserve_aflags(drcontext, bb, s->instr);
    }
    if (s->exec)
        insert_exec(&at, s, p, r);
    for (unsigned i = 0; i < s->count; i++)
        insert_entry(&at, s, i, p, r, scratch);
    if (s->close && s->insn->code == MT_CODE_DATA)
        dr_insert_clean_call(drcontext, bb, s->instr, (void *)insert_chosen, false, 1,
                             OPND_CREATE_INT32((int)(s->slot + s->count)));
    else if (s->close)
        insert_close(&at, s->slot + s->exec + s->count, p, r);
    if (s->close) {
        insert_filled(drcontext, bb, s->instr,
                      s->insn->code == MT_CODE_DATA ? 0 : -(int)(s->exec + s->count));
        insert_release(&at, p);
        *window = DR_REG_NULL;
    }
    if (scratch != DR_REG_NULL)
        insert_release(&at, scratch);
    insert_release(&at, r);
}

static void insert_left_out(unsigned count)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    if (t && t->core && !t->calls.silent && !mt_client.forked)
        mt_core_left_out(t->core, count);
}

/* Inserts code that counts accesses left out. */
static void insert_left(void *d, instrlist_t *bb, instr_t *where, unsigned count)
{
    struct insert_point at = {d, bb, where};
    if (!mt_core_always()) {
        dr_insert_clean_call(d, bb, where, (void *)insert_left_out, false, 1, OPND_CREATE_INT32((int)count));
        return;
    }
    reg_id_t p = insert_reserve(&at, 0), r = insert_reserve(&at, 0);
    dr_insert_read_raw_tls(d, bb, where, mt_client.segment, mt_client.left, p);
    insert_load(&at, r, p, 0);
    insert_one(&at, INSTR_CREATE_lea(d, opnd_create_reg(r),
                                     opnd_create_base_disp(r, DR_REG_NULL, 0, (int)count, OPSZ_lea)));
    insert_one(&at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEMPTR(p, 0), opnd_create_reg(r)));
    insert_release(&at, p);
    insert_release(&at, r);
}

/* Inserts code that checks the thread's buffer when that was requested. */
static void insert_look(void *drcontext, instrlist_t *bb, instr_t *where)
{
    struct insert_point at = {drcontext, bb, where};
    reg_id_t p = insert_reserve(&at, 0), r = insert_reserve(&at, 0);
    drreg_reserve_aflags(drcontext, bb, where);
    insert_open(&at, p, r, mt_client.look);
    drreg_unreserve_aflags(drcontext, bb, where);
    insert_release(&at, p);
    insert_release(&at, r);
}

/* Inserts a probe of mt_client.slot, by which the thread may leave the cache. */
static void insert_probe(void *d, instrlist_t *bb, instr_t *where)
{
    struct insert_point at = {d, bb, where};
    reg_id_t r = insert_reserve(&at, 0);
    insert_first(&at, r, r);
    insert_release(&at, r);
}

/* Returns a register with the operand's address, to be released. */
static reg_id_t insert_address(void *drcontext, instrlist_t *bb, const struct mt_step *s, unsigned i)
{
    struct insert_point at = {drcontext, bb, s->instr};
    reg_id_t r = insert_reserve(&at, s->avoid), scratch = insert_reserve(&at, s->avoid);
    drreg_restore_app_values(drcontext, bb, s->instr, s->operand[i], NULL);
    drutil_insert_get_mem_addr(drcontext, bb, s->instr, s->operand[i], r, scratch);
    insert_release(&at, scratch);
    return r;
}

/* ---- compare-and-swap ---- */

/* mat mode: inserts code before a compare-and-swap, and before the instruction after it (`where`). */
static void insert_swap(void *drcontext, instrlist_t *bb, const struct mt_step *s)
{
    reg_id_t r = insert_address(drcontext, bb, s, 0);
    dr_insert_write_raw_tls(drcontext, bb, s->instr, mt_client.segment, mt_client.address, r);
    drreg_unreserve_register(drcontext, bb, s->instr, r);
}

/* The flags are still the swap's: ZF means that it wrote. */
static void insert_swapped(void *d, instrlist_t *bb, instr_t *where, const struct mt_insn *n)
{
    struct insert_point at = {d, bb, where};
    reg_id_t p = insert_reserve(&at, 0), r = insert_reserve(&at, 0);
    drreg_restore_app_aflags(d, bb, where);
    insert_one(&at,
               INSTR_CREATE_mov_imm(d, opnd_create_reg(p), OPND_CREATE_INT64((int64)n->operand[0].site)));
    insert_one(&at, INSTR_CREATE_mov_imm(d, opnd_create_reg(r), OPND_CREATE_INT64((int64)n->failed)));
    insert_one(&at, INSTR_CREATE_cmovcc(d, OP_cmovz, opnd_create_reg(r), opnd_create_reg(p)));
    dr_insert_write_raw_tls(d, bb, where, mt_client.segment, mt_client.site, r);
    drreg_reserve_aflags(d, bb, where);
    insert_open(&at, p, r, stay);
    drreg_unreserve_aflags(d, bb, where);
    dr_insert_read_raw_tls(d, bb, where, mt_client.segment, mt_client.address, r);
    insert_one(&at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEMPTR(p, 0), opnd_create_reg(r)));
    dr_insert_read_raw_tls(d, bb, where, mt_client.segment, mt_client.site, r);
    insert_one(&at, INSTR_CREATE_mov_st(d, OPND_CREATE_MEMPTR(p, 8), opnd_create_reg(r)));
    insert_close(&at, 1, p, r);
    insert_release(&at, p);
    insert_release(&at, r);
}

/* DynamoRIO's events for a block of code: insertions by mode, and the functions that inserted code calls. */

enum { ZERO_FLAG = 1 << 6, SWAPS = 16 };

/* Returns the calling thread; the caller ends with leave_sometimes. */
static struct mt_client_thread *block_thread(void)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    if (!t || !t->core || mt_client.forked)
        return NULL;
    if (t->calls.silent)
        leave_sometimes(t);
    return t->calls.silent ? NULL : t;
}

static void block_mcontext(dr_mcontext_t *m, dr_mcontext_flags_t flags)
{
    m->size = sizeof *m;
    m->flags = flags;
    dr_get_mcontext(dr_get_current_drcontext(), m);
}

/* ---- one execution in the core's form ---- */

/* Fills in the operands that are recorded. */
static unsigned block_operands(struct mt_client_thread *t, const struct mt_insn *n, unsigned count,
                               const uint64_t *address, const uint32_t *size,
                               struct mt_core_operand o[MT_X86_OPERANDS])
{
    unsigned wanted = 0;
    for (unsigned i = 0; i < count; i++)
        if (mt_core_wants(t->core, n->code, address[i]))
            o[wanted++] = (struct mt_core_operand){address[i], n->operand[i].site,
                                                   size[i] ? size[i] : n->operand[i].size};
    return wanted;
}

/* Records one access, whatever --library says. */
static void client_record(struct mt_client_thread *t, const struct mt_core_operand *o)
{
    if (mt_client.mode == MT_CORE_MAT)
        mt_core_access(t->core, o->site, o->address, o->size);
    else if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn_operand(t->core, o->site, o->address, o->size);
    else if (mt_client.turns)
        mt_core_atomic_alone_one(t->core, o->address, o->site, o->size);
    else {
        mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_atomic_begin_one(t->core, o->address, o->site, o->size);
        mt_core_atomic_end(t->core, NULL, 0, 0);
    }
}

static void block_record(struct mt_client_thread *t, const struct mt_insn *n, const struct mt_core_operand *o)
{
    if (mt_core_wants(t->core, n->code, o->address))
        client_record(t, o);
}

/* ---- called before an instruction ---- */

/* insn mode: takes note that the instruction executes. */
static void block_executed(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    mt_core_insn(t->core, n->site);
    leave_sometimes(t);
}

static void block_insn(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    if (!t)
        return;
    mt_core_insn(t->core, n->site);
    for (unsigned i = 0; i < (packed & 3); i++) {
        uint32_t size = (uint32_t)(packed >> 8);
        mt_core_insn_operand(t->core, n->operand[i].site, address[i], size ? size : n->operand[i].size);
    }
    leave_sometimes(t);
}

static void block_begin_one(const struct mt_insn *n, uint64_t size, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    mt_core_atomic_end(t->core, NULL, 0, 0); /* the previous instruction */
    if (mt_core_wants(t->core, n->code, address))
        mt_core_atomic_begin_one(t->core, address, n->operand[0].site,
                                 size ? (uint32_t)size : n->operand[0].size);
    leave_sometimes(t);
}

static void block_begin(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    const uint32_t size[] = {(uint32_t)(packed >> 8), 0, 0};
    struct mt_core_operand o[MT_X86_OPERANDS];
    if (!t)
        return;
    mt_core_atomic_end(t->core, NULL, 0, 0);
    unsigned count = block_operands(t, n, packed & 3, address, size, o);
    if (count)
        mt_core_atomic_begin(t->core, o, count);
    leave_sometimes(t);
}

/* By turns: records several operands with one time. */
static void block_alone(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    const uint32_t size[] = {(uint32_t)(packed >> 8), 0, 0};
    struct mt_core_operand o[MT_X86_OPERANDS];
    if (!t)
        return;
    client_look(t);
    t->hand.inside++;
    mt_core_atomic_alone(t->core, o, block_operands(t, n, packed & 3, address, size, o), 0);
    t->hand.inside--;
    leave_sometimes(t);
}

static void block_end(void)
{
    struct mt_client_thread *t = block_thread();
    if (t)
        mt_core_atomic_end(t->core, NULL, 0, 0);
}

/* Counts an executed access without address. */
static void block_lost(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    if (mt_client_appends())
        client_look(t);
    t->hand.inside++;
    if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
    mt_core_lost(t->core, 1);
    t->hand.inside--;
    leave_sometimes(t);
}

static int block_read(uint64_t address, void *to, unsigned bytes)
{
    size_t got = 0;
    return dr_safe_read((const void *)(uintptr_t)address, bytes, to, &got) ? 0 : -1;
}

static void block_elements(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    struct mt_elements_registers r;
    struct mt_element e[MT_ELEMENTS_MAX];
    if (!t)
        return;
    block_mcontext(&m, DR_MC_ALL);
    const uint64_t general[16] = {m.xax, m.xcx, m.xdx, m.xbx, m.xsp, m.xbp, m.xsi, m.xdi,
                                  m.r8,  m.r9,  m.r10, m.r11, m.r12, m.r13, m.r14, m.r15};
    memset(&r, 0, sizeof r);
    memcpy(r.general, general, sizeof general);
    r.ip = n->x86.ip;
    r.read = block_read;
    for (unsigned i = 0; i < 8 && i < MCXT_NUM_OPMASK_SLOTS; i++)
        r.mask[i] = m.opmask[i];
    for (unsigned i = 0; i < 32 && i < MCXT_NUM_SIMD_SLOTS; i++)
        memcpy(r.vector[i], &m.simd[i], sizeof m.simd[i] < 64 ? sizeof m.simd[i] : 64);
    if (mt_client_appends())
        client_look(t);
    t->hand.inside++;
    if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
    unsigned count = mt_elements(n->elements, &r, e);
    for (unsigned i = 0; i < count; i++)
        block_record(t, n, &(struct mt_core_operand){e[i].address, n->operand[0].site, e[i].size});
    t->hand.inside--;
    leave_sometimes(t);
}

/* ---- compare-and-swap ---- */

/* Lets other threads run between the load of a value and its swap, but only now and then: otherwise many
 * threads and their locks would make no progress. */
static void block_swap_turn(struct mt_client_thread *t)
{
    int others = ++t->swaps % SWAPS == 0;
    if (others)
        t->asked = 1;
    if (others || *t->slot == &t->aside || mt_baton_holder != &t->hand)
        client_look(t);
}

static void block_swap(const struct mt_insn *n, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    t->swap = NULL;
    if (!mt_core_wants(t->core, n->code, address))
        return;
    t->swap = n;
    t->swap_address = address;
    if (mt_client.turns)
        block_swap_turn(t);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns) {
        mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_atomic_begin_one(t->core, address, n->operand[0].site, n->operand[0].size);
    } else if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
}

static void block_swapped_so(struct mt_client_thread *t, int failed)
{
    const struct mt_insn *n = t->swap;
    t->swap = NULL;
    if (mt_client.turns && mt_client.mode == MT_CORE_ATOMIC) {
        struct mt_core_operand o = {t->swap_address, n->operand[0].site, n->operand[0].size};
        t->hand.inside++;
        mt_core_atomic_alone(t->core, &o, 1, failed);
        t->hand.inside--;
        return;
    }
    if (mt_client.mode == MT_CORE_ATOMIC) {
        mt_core_atomic_end(t->core, NULL, 0, failed);
        return;
    }
    if (mt_client.mode == MT_CORE_MAT)
        client_look(t);
    block_record(t, n,
                 &(struct mt_core_operand){t->swap_address, failed ? n->failed : n->operand[0].site,
                                           n->operand[0].size});
}

static void block_swapped(void)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    if (!t)
        return;
    if (t->swap) {
        block_mcontext(&m, DR_MC_CONTROL);
        block_swapped_so(t, !(m.xflags & ZERO_FLAG));
    }
    leave_sometimes(t);
}

/* Handles a swap at the end of its block, which only DynamoRIO's limit of a block's length causes: its
 * result is predicted from the present value. */
static void block_swap_last(const struct mt_insn *n, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    uint64_t now[2] = {0, 0}, wanted[2] = {0, 0};
    size_t got, bytes = n->operand[0].size > 16 ? 16 : n->operand[0].size;
    if (!t)
        return;
    block_mcontext(&m, DR_MC_INTEGER);
    block_swap(n, address);
    dr_safe_read((const void *)(uintptr_t)address, bytes, now, &got);
    wanted[0] = bytes == 8 && n->x86.cas_register == MT_X86_NO_REG ? m.xdx << 32 | (uint32_t)m.xax : m.xax;
    wanted[1] = m.xdx;
    if (t->swap)
        block_swapped_so(t, memcmp(now, wanted, bytes) != 0);
    leave_sometimes(t);
}

/* ---- returns of calls ---- */

/* The code behind a call of a function of interest checks whether it has returned. Where longjmp and
 * exceptions matter, so does the code behind any call: these leave functions without a return, which the
 * stack pointer shows. drwrap could watch returns, too. But if the code behind the call was executed
 * before, drwrap has DynamoRIO stop all threads and free that code at once: a thread's window is then
 * lost, and a thread that waits for its turn inside of a block returns to code that is gone. */
enum { BEHIND_NOTED = 1, BEHIND_LOOKS };
static struct mt_guest_map behind; /* addresses of instructions behind calls; written under behind_lock */
static struct mt_spin behind_lock;

static void block_note(app_pc pc, uint64_t what)
{
    mt_spin_lock(&behind_lock);
    if (mt_guest_map_get(&behind, (uint64_t)(uintptr_t)pc) < what)
        mt_guest_map_put(&behind, (uint64_t)(uintptr_t)pc, what);
    mt_spin_unlock(&behind_lock);
}

/* A function of interest that is being entered returns to `to`; the block there checks from now on. The
 * caller holds no lock, since this waits for threads that are about to execute new code. */
static void insert_return(app_pc to)
{
    if (mt_guest_map_get(&behind, (uint64_t)(uintptr_t)to) == BEHIND_LOOKS)
        return;
    block_note(to, BEHIND_NOTED);
    if (dr_fragment_exists_at(dr_get_current_drcontext(), to))
        dr_unlink_flush_region(to, 1); /* threads inside continue; no further one enters */
    block_note(to, BEHIND_LOOKS);
}

static int block_watches_returns(void)
{
    return mt_client.options.routine.count || *mt_client.options.functions;
}

static void block_landed(const void *ip)
{
    struct mt_client_thread *t = client_thread(dr_get_current_drcontext());
    dr_mcontext_t m;
    if (!t || !t->core || !t->calls.count || mt_client.forked)
        return;
    block_mcontext(&m, DR_MC_INTEGER | DR_MC_CONTROL);
    client_look(t);
    t->hand.inside++;
    mt_calls_return(&t->calls, t->core, (uint64_t)(uintptr_t)ip, m.xsp, m.xax);
    if (mt_client.mode == MT_CORE_MAT && mt_sequence_moved()) {
        mt_sequence_seen();
        mt_core_moved(t->core);
    }
    t->hand.inside--;
    client_look(t);
}

static void block_note_call(instrlist_t *bb)
{
    instr_t *last = instrlist_last_app(bb);
    if (last && instr_is_call(last) && block_watches_returns())
        block_note(instr_get_app_pc(last) + instr_length(dr_get_current_drcontext(), last), BEHIND_NOTED);
}

static int block_is_behind_call(instrlist_t *bb, instr_t *instr)
{
    return instr == instrlist_first_app(bb) &&
           mt_guest_map_get(&behind, (uint64_t)(uintptr_t)instr_get_app_pc(instr)) != 0;
}

/* ---- insertion ---- */

static void block_call(void *d, instrlist_t *bb, instr_t *where, void *f, const struct mt_insn *n)
{
    dr_insert_clean_call(d, bb, where, f, false, n ? 1 : 0, OPND_CREATE_INTPTR(n));
}

static void block_app_call(void *d, instrlist_t *bb, instr_t *where, void *f, const struct mt_insn *n)
{
    dr_insert_clean_call_ex(d, bb, where, f, DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_SAVE_FLOAT,
                            n ? 1 : 0, OPND_CREATE_INTPTR(n));
}

/* Inserts a call with the operands' addresses. */
static void block_exact(void *d, instrlist_t *bb, const struct mt_step *s)
{
    reg_id_t r[MT_X86_OPERANDS];
    opnd_t a[MT_X86_OPERANDS] = {OPND_CREATE_INT32(0), OPND_CREATE_INT32(0), OPND_CREATE_INT32(0)};
    uint64_t packed = s->count | (uint64_t)s->size[0] << 8;
    for (unsigned i = 0; i < s->count; i++) {
        r[i] = insert_address(d, bb, s, i);
        a[i] = opnd_create_reg(r[i]);
    }
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && s->count == 1)
        dr_insert_clean_call(d, bb, s->instr, (void *)block_begin_one, false, 3, OPND_CREATE_INTPTR(s->insn),
                             OPND_CREATE_INT32((int)s->size[0]), a[0]);
    else
        dr_insert_clean_call(d, bb, s->instr,
                             mt_client.mode == MT_CORE_INSN ? (void *)block_insn
                             : mt_client.turns              ? (void *)block_alone
                                                            : (void *)block_begin,
                             false, 5, OPND_CREATE_INTPTR(s->insn), OPND_CREATE_INTPTR(packed), a[0], a[1],
                             a[2]);
    for (unsigned i = 0; i < s->count; i++)
        drreg_unreserve_register(d, bb, s->instr, r[i]);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && s->last) /* no entry of this block follows */
        block_call(d, bb, s->instr, (void *)block_end, NULL);
}

static void block_insert_swap(void *d, instrlist_t *bb, const struct mt_step *s)
{
    if (mt_client.mode == MT_CORE_MAT && !s->last && s->insn->code == MT_CODE_ALL) {
        insert_swap(d, bb, s);
        return;
    }
    reg_id_t r = insert_address(d, bb, s, 0);
    dr_insert_clean_call_ex(d, bb, s->instr, s->last ? (void *)block_swap_last : (void *)block_swap,
                            s->last ? DR_CLEANCALL_READS_APP_CONTEXT : 0, 2, OPND_CREATE_INTPTR(s->insn),
                            opnd_create_reg(r));
    drreg_unreserve_register(d, bb, s->instr, r);
}

static void block_insert_swapped(void *d, instrlist_t *bb, instr_t *where, const struct mt_insn *n)
{
    if (mt_client.mode == MT_CORE_MAT && n->code == MT_CODE_ALL)
        insert_swapped(d, bb, where, n);
    else
        block_app_call(d, bb, where, (void *)block_swapped, NULL);
}

struct block {
    struct mt_plan *plan;
    reg_id_t window;
    int repeated;
    int filled;                 /* entries of the window from earlier instructions */
    const struct mt_insn *swap; /* the previous instruction, a compare-and-swap */
};

static void block_step(void *d, instrlist_t *bb, const struct mt_step *s, struct block *b)
{
    if (s->kind == MT_STEP_SWAP && mt_client.mode == MT_CORE_MAT)
        insert_look(d, bb, s->instr); /* code inserted after it may make room, but not leave */
    else if (s->kind != MT_STEP_APPEND && s->kind != MT_STEP_LEFT)
        insert_probe(d, bb, s->instr);
    switch (s->kind) {
    case MT_STEP_NONE:
        block_call(d, bb, s->instr, (void *)block_executed, s->insn); /* insn mode only */
        break;
    case MT_STEP_APPEND:
        insert_append(d, bb, s, &b->window);
        b->filled = b->window == DR_REG_NULL || s->insn->code == MT_CODE_DATA
                        ? 0
                        : (int)(s->slot + s->exec + s->count);
        break;
    case MT_STEP_CALL:
        block_exact(d, bb, s);
        break;
    case MT_STEP_SWAP:
        block_insert_swap(d, bb, s);
        b->swap = s->last ? NULL : s->insn;
        break;
    case MT_STEP_ELEMENTS:
        block_app_call(d, bb, s->instr, (void *)block_elements, s->insn);
        break;
    case MT_STEP_LOST:
        block_call(d, bb, s->instr, (void *)block_lost, s->insn);
        break;
    case MT_STEP_LEFT:
        insert_left(d, bb, s->instr, s->count);
        break;
    }
}

/* Returns 1 for the end of a block that may jump to itself for ever. */
static int block_is_loop(instrlist_t *bb, instr_t *instr)
{
    instr_t *first = instrlist_first_app(bb);
    return !instr_get_next_app(instr) && (instr_is_cbr(instr) || instr_is_ubr(instr)) &&
           instr_get_branch_target_pc(instr) <= instr_get_app_pc(first);
}

static dr_emit_flags_t on_insertion(void *d, void *tag, instrlist_t *bb, instr_t *instr, bool for_trace,
                                    bool translating, void *user)
{
    struct block *b = user;
    (void)tag, (void)for_trace, (void)translating;
    if (!b || !b->plan || !instr_is_app(instr))
        return DR_EMIT_DEFAULT;
    if (block_is_behind_call(bb, instr))
        dr_insert_clean_call_ex(d, bb, instr, (void *)block_landed, DR_CLEANCALL_READS_APP_CONTEXT, 1,
                                OPND_CREATE_INTPTR(instr_get_app_pc(instr)));
    if (b->plan->left && instr == instrlist_first_app(bb))
        insert_left(d, bb, instr, b->plan->left);
    if (mt_client_appends() && b->plan->count)
        insert_filled(d, bb, instr, b->filled);
    if (b->swap)
        block_insert_swapped(d, bb, instr, b->swap);
    b->swap = NULL;
    const struct mt_step *s = plan_step(b->plan, instr);
    if (s)
        block_step(d, bb, s, b);
    else if (mt_client.turns && !b->plan->count && block_is_loop(bb, instr))
        insert_look(d, bb, instr);
    else if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && !instr_get_next_app(instr) &&
             b->plan->count)
        block_call(d, bb, instr, (void *)block_end, NULL);
    return DR_EMIT_DEFAULT;
}

static void client_worker(void);

static dr_emit_flags_t on_app2app(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                  void **user)
{
    struct block *b = dr_thread_alloc(d, sizeof *b);
    bool expanded = false;
    static int started;
    (void)tag, (void)for_trace, (void)translating;
    *b = (struct block){.window = DR_REG_NULL};
    *user = b;
    if (mt_client.forked)
        return DR_EMIT_DEFAULT;
    if (!started) {
        started = 1;
        mt_modules_globals();
        client_worker();
    }
    drutil_expand_rep_string_ex(d, bb, &expanded, NULL);
    b->repeated = expanded;
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t on_analysis(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                   void *user)
{
    struct block *b = user;
    (void)tag, (void)for_trace, (void)translating;
    block_note_call(bb);
    if (!mt_client.forked)
        b->plan = plan_make(d, bb, b->repeated);
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t on_inserted(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                   void *user)
{
    struct block *b = user;
    (void)tag, (void)bb, (void)for_trace, (void)translating;
    plan_free(b->plan);
    dr_thread_free(d, b, sizeof *b);
    return DR_EMIT_DEFAULT;
}

/* Code insertion. */
static void insert_start(void)
{
    /* Calls at a function's entry come before the records of its first instruction. */
    static drmgr_priority_t after_calls = {sizeof after_calls, "memtrace", NULL, NULL,
                                           DRMGR_PRIORITY_INSERT_DRWRAP + 1};
    insert_start_room();
    if (!drmgr_register_bb_instrumentation_ex_event(on_app2app, on_analysis, on_insertion, on_inserted,
                                                    &after_calls))
        mt_core_incomplete("DynamoRIO takes no instrumentation; nothing is traced");
}

static void insert_stop(void)
{
    insert_stop_room();
}

/* ---- Threads of the program, their system calls and signals, forks ---- */

enum { SIGNALS = 65 };

/* The program's action for a signal as far as known: address of a handler, SIG_DFL or SIG_IGN. */
static uint64_t handler[SIGNALS];

static struct mt_client_thread *client_thread(void *drcontext)
{
    return drmgr_get_tls_field(drcontext, mt_client.field);
}

/* ---- destination of entries ---- */

/* Returns the calling thread's slot. This is a system call, so once per thread. */
static struct mt_core_thread **process_slot(void)
{
    return (struct mt_core_thread **)((byte *)dr_get_dr_segment_base(mt_client.segment) + mt_client.slot);
}

static void process_count(struct mt_client_thread *t, int traced)
{
    *(uint64_t **)(void *)((byte *)t->slot + (mt_client.left - mt_client.slot)) =
        traced ? mt_core_left(t->core) : &t->uncounted;
}

static void process_aside(struct mt_client_thread *t)
{
    t->aside.cur = t->spare;
    t->aside.limit = NULL;
    *t->slot = &t->aside;
}

static void process_hand(struct mt_client_thread *t)
{
    struct mt_host_entry *end = t->aside.cur;
    for (struct mt_host_entry *e = t->spare; !t->calls.silent && e < end; e++)
        if (mt_client.mode == MT_CORE_INSN && !MT_HOST_OPERAND(e->site))
            mt_core_insn(t->core, e->site);
        else if (mt_client.mode == MT_CORE_INSN)
            mt_core_insn_operand(t->core, e->site, e->address, e->size);
        else if (mt_client.turns)
            mt_core_atomic_alone_one(t->core, e->address, e->site, e->size);
        else
            mt_core_access(t->core, e->site, e->address, e->size);
}

/* DynamoRIO does close_range itself, and does not report its end. */
static void process_skipped(struct mt_client_thread *t)
{
    if (t->syscall.number == SYS_close_range)
        mt_syscall_return(&t->syscall, t->core, SYS_close_range, 0);
}

/* Hands the entries in `spare` to the core, and chooses the destination of the next entries. */
static void client_look(struct mt_client_thread *t)
{
    process_skipped(t);
    int traced = t->core && !t->calls.silent && !mt_client.forked;
    t->hand.inside++;
    if (t->core && !mt_client.forked) {
        turn_hold(t);
        process_hand(t);
    }
    process_aside(t);
    process_count(t, traced);
    if (mt_client.turns && t->core && !mt_client.forked) {
        turn_yield(t);
        if (traced && mt_core_on())
            mt_core_turn_open(t->core);
    }
    t->hand.inside--;
    if (traced && t->core->cur < __atomic_load_n(&t->core->limit, __ATOMIC_RELAXED))
        *t->slot = t->core;
}

/* ---- threads ---- */

/* glibc sets these pointers when it makes a thread; DynamoRIO's own copy of glibc makes none. */
static const unsigned short *ctype_classes;
static const int *ctype_lower, *ctype_upper;

/* Prepares each thread for isdigit, sscanf and their like. */
static void process_ctype(void)
{
    if (!ctype_classes) { /* the first thread */
        ctype_classes = *__ctype_b_loc();
        ctype_lower = *__ctype_tolower_loc();
        ctype_upper = *__ctype_toupper_loc();
    }
    *(const unsigned short **)__ctype_b_loc() = ctype_classes;
    *(const int **)__ctype_tolower_loc() = ctype_lower;
    *(const int **)__ctype_toupper_loc() = ctype_upper;
}

/* By turns, others may still read the state of a thread that has ended. */
static struct mt_spin ended_lock;
static struct mt_client_thread *ended;

static struct mt_client_thread *process_new(void)
{
    mt_spin_lock(&ended_lock);
    struct mt_client_thread *t = ended;
    ended = t ? t->next : NULL;
    mt_spin_unlock(&ended_lock);
    if (!t)
        return calloc(1, sizeof *t);
    memset(t, 0, sizeof *t);
    return t;
}

static void process_old(struct mt_client_thread *t)
{
    t->core = NULL;
    if (!mt_client.turns) {
        free(t);
        return;
    }
    mt_spin_lock(&ended_lock);
    t->next = ended;
    ended = t;
    mt_spin_unlock(&ended_lock);
}

static void client_on_thread_start(void *drcontext)
{
    process_ctype();
    struct mt_client_thread *t = process_new();
    drmgr_set_tls_field(drcontext, mt_client.field, t);
    if (!t) { /* its code must not run without it */
        dr_fprintf(STDERR, "memtrace: no memory for a thread\n");
        dr_abort_with_code(1);
        return;
    }
    t->slot = process_slot();
    t->syscall.number = -1;
    /* A child of vfork or posix_spawn runs as a thread in this memory, until it becomes another program. */
    int own = (process_id_t)mt_plat_pid() == mt_client.process;
    t->hand.thread = (int)dr_get_thread_id(drcontext);
    if (!mt_client.forked && own) {
        turn_hold(t);
        t->core = mt_core_thread_start((uint64_t)dr_get_thread_id(drcontext));
        turn_leave(t);
    }
    process_aside(t);
    process_count(t, t->core != NULL);
}

static void process_done(struct mt_client_thread *t)
{
    client_look(t);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core && !mt_client.forked)
        mt_core_atomic_end(t->core, NULL, 0, 0);
}

static void client_on_thread_end(void *drcontext)
{
    struct mt_client_thread *t = client_thread(drcontext);
    if (!t)
        return;
    if (t->core && !mt_client.forked) {
        /* At the end of the process another thread may report this: its slot is not this thread's. */
        process_skipped(t);
        t->hand.inside++;
        turn_hold(t);
        process_hand(t);
        if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns)
            mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_thread_end(t->core);
        t->core = NULL;
        turn_leave(t);
        t->hand.inside--;
    }
    mt_calls_free(&t->calls);
    drmgr_set_tls_field(drcontext, mt_client.field, NULL);
    process_old(t);
}

/* ---- system calls ---- */

/* Returns the highest descriptor that is, or may be, open. */
static reg_t process_highest(void)
{
    struct rlimit most = {0};
    reg_t highest = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        reg_t fd = strtoul(e->d_name, NULL, 10);
        highest = fd > highest ? fd : highest;
    }
    if (d)
        closedir(d);
    else if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        highest = most.rlim_max;
    return highest;
}

/* DynamoRIO visits all numbers of the range, and most programs name four thousand millions of them. */
static void process_close_range(void *drcontext, const uint64_t args[6])
{
    reg_t highest = process_highest();
    if (args[0] <= args[1] && args[1] > highest)
        dr_syscall_set_param(drcontext, 1, highest > args[0] ? highest : (reg_t)args[0]);
}

/* seccomp: DynamoRIO makes calls that the program does not. */
static void process_restricted(int number, const uint64_t args[6])
{
    if ((number == SYS_seccomp && args[0] <= SECCOMP_SET_MODE_FILTER) ||
        (number == SYS_prctl && args[0] == PR_SET_SECCOMP)) {
        mt_core_incomplete(
            "the program restricts its system calls (seccomp): the trace ends here, incomplete; "
            "DynamoRIO's own may end the program (--engine=qemu)");
        mt_core_stop(0);
    }
}

static bool on_filter(void *drcontext, int number)
{
    (void)drcontext, (void)number;
    return true;
}

/* Records loads made by no code (operands without a site) for the code at `ip`. */
static void client_others(struct mt_client_thread *t, const struct mt_core_operand *o, unsigned n,
                          uint64_t ip)
{
    for (unsigned i = 0; i < n && mt_client.mode != MT_CORE_INSN; i++) {
        if (!mt_core_wants(t->core, mt_core_options()->others, o[i].address))
            continue;
        struct mt_core_operand one = {o[i].address, mt_syscall_site(ip), o[i].size};
        turn_hold(t);
        if (one.site)
            client_record(t, &one);
        else
            mt_core_lost(t->core, 1);
    }
}

static void process_reads(struct mt_client_thread *t, int number, const uint64_t args[6], uint64_t ip)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    uint64_t at = 0;
    for (unsigned n; !t->calls.silent && (n = mt_syscall_reads(number, args, &at, o)) != 0;)
        client_others(t, o, n, ip);
}

static bool client_on_syscall(void *drcontext, int number)
{
    struct mt_client_thread *t = client_thread(drcontext);
    uint64_t args[6];
    if (t)
        t->inside_ns = 0;
    for (int i = 0; i < 6; i++)
        args[i] = (uint64_t)dr_syscall_get_param(drcontext, i);
    if (number == SYS_close_range) /* also in a child of vfork, which would take minutes */
        process_close_range(drcontext, args);
    if (!t || !t->core || mt_client.forked)
        return true;
    process_done(t);
    t->hand.inside++;
    uint64_t site = mt_calls_site(&t->calls);
    if (!site) {
        dr_mcontext_t m = {.size = sizeof m, .flags = DR_MC_CONTROL};
        site = dr_get_mcontext(drcontext, &m) ? (uint64_t)(uintptr_t)m.pc : 0;
    }
    t->syscall.silent = t->calls.silent != 0;
    if (number == SYS_exit_group)
        mt_core_stop(0);
    process_restricted(number, args);
    process_reads(t, number, args, site);
    mt_syscall_enter(&t->syscall, t->core, number, args, site);
    t->hand.inside--;
    if (number == SYS_close_range)
        process_aside(t);  /* the next access checks */
    if (mt_client.turns) { /* it may wait for others */
        process_aside(t);
        turn_leave(t);
    }
    return true;
}

static void process_handles(const struct mt_syscall *s)
{
    uint64_t to;
    size_t got;
    if (s->args[1] && s->args[0] < SIGNALS &&
        dr_safe_read((const void *)(uintptr_t)s->args[1], sizeof to, &to, &got))
        __atomic_store_n(&handler[s->args[0]], to, __ATOMIC_RELAXED);
}

static void client_on_syscall_done(void *drcontext, int number)
{
    struct mt_client_thread *t = client_thread(drcontext);
    int64_t result = (int64_t)dr_syscall_get_result(drcontext);
    if (!t || !t->core || mt_client.forked)
        return;
    if (number == SYS_rt_sigaction && result == 0 && t->syscall.number == number)
        process_handles(&t->syscall);
    mt_syscall_return(&t->syscall, t->core, number, result);
    if (!mt_client.turns) /* the next access takes the turn */
        client_look(t);
}

/* ---- signals ---- */

static int process_kills(int number)
{
    switch (number) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
    case SIGCONT:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return 0;
    default:
        return 1;
    }
}

/* Called for a signal, but also where the code then continues: only client_on_signal can tell. */
static bool on_restore(void *drcontext, bool restore_memory, dr_restore_state_info_t *info)
{
    struct mt_client_thread *t = client_thread(drcontext);
    const dr_fault_fragment_info_t *f = &info->fragment_info;
    (void)restore_memory;
    if (!t || !mt_client_appends() || !info->raw_mcontext_valid)
        return true;
    t->stopped = info->raw_mcontext->pc;
    t->filled = f->ilist ? insert_filled_at(drcontext, f->ilist, f->cache_start_pc, t->stopped) : 0;
    return true;
}

static int leave_asked(const struct mt_client_thread *t);

/* Handles a block that will not continue: its entries count up to the instruction that did not end. */
static void process_broken_off(struct mt_client_thread *t, const dr_siginfo_t *info)
{
    if (!info->raw_mcontext_valid || info->raw_mcontext->pc != t->stopped)
        return;
    struct mt_core_thread *to = *t->slot;
    if (leave_asked(t)) /* nothing is filled there */
        return;
    __atomic_store_n(&to->cur, to->cur + t->filled, __ATOMIC_RELEASE);
    t->stopped = NULL;
    t->filled = 0;
}

/* DynamoRIO stops threads by SIGILL, but has returned it to the system when the program dies of it: its
 * own end would wait for ever for the writing thread. */
static void process_die(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(mt_plat_pid(), number);
}

/* The thread left the cache: its pending signals are delivered before it continues. */
static dr_signal_action_t process_left(struct mt_client_thread *t)
{
    t->stopped = NULL;
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core)
        mt_core_atomic_end(t->core, NULL, 0, 0);
    process_aside(t);
    return DR_SIGNAL_REDIRECT;
}

static int leave_is(const struct mt_client_thread *t, const dr_siginfo_t *info);

static dr_signal_action_t client_on_signal(void *drcontext, dr_siginfo_t *info)
{
    struct mt_client_thread *t = client_thread(drcontext);
    int number = info->sig;
    uint64_t to = number > 0 && number < SIGNALS ? __atomic_load_n(&handler[number], __ATOMIC_RELAXED) : 1;
    if (mt_client.forked || !t)
        return DR_SIGNAL_DELIVER;
    if (number == SIGSEGV && leave_is(t, info))
        return process_left(t);
    if (mt_client.options.signal && (number == SIGUSR1 || number == SIGUSR2)) {
        mt_core_switch(number == SIGUSR1);
        return to > 1 ? DR_SIGNAL_DELIVER : DR_SIGNAL_SUPPRESS;
    }
    if (to != 1)
        process_broken_off(t, info);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core) {
        mt_core_atomic_drop(t->core, NULL);
        mt_core_context_change(t->core);
    }
    if (to == 0 && process_kills(number) && !info->blocked) {
        turn_last(t);
        if (!mt_client.turns || mt_baton_holder == &t->hand)
            client_look(t);
        mt_core_stop(1);
        if (number == SIGILL)
            process_die(number);
    }
    return DR_SIGNAL_DELIVER;
}

/* ---- forks ---- */

static void client_on_fork(void *drcontext)
{
    struct mt_client_thread *t = client_thread(drcontext);
    mt_client.forked = 1;
    mt_core_forked();
    if (t)
        process_aside(t);
    dr_delay_flush_region(NULL, ~(size_t)0, 0, NULL); /* code without records from here on */
}

static void leave_start(void);

/* Threads, system calls, signals, forks. */
static void process_start(void)
{
    struct sigaction now;
    process_ctype();
    leave_start();
    for (int i = 1; i < SIGNALS; i++) /* actions that the program inherited */
        if (sigaction(i, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            handler[i] = 1;
    mt_client.field = drmgr_register_tls_field();
    if (mt_client.field < 0 || !dr_raw_tls_calloc(&mt_client.segment, &mt_client.slot, 5, 0)) {
        dr_fprintf(STDERR, "memtrace: DynamoRIO has no thread-local memory left\n");
        dr_abort_with_code(1);
    }
    mt_client.back = mt_client.slot + (uint)sizeof(void *);
    mt_client.address = mt_client.back + (uint)sizeof(void *);
    mt_client.site = mt_client.address + (uint)sizeof(void *);
    mt_client.left = mt_client.site + (uint)sizeof(void *);
    drmgr_register_filter_syscall_event(on_filter);
    drmgr_register_thread_init_event(client_on_thread_start);
    drmgr_register_thread_exit_event(client_on_thread_end);
    drmgr_register_pre_syscall_event(client_on_syscall);
    drmgr_register_post_syscall_event(client_on_syscall_done);
    drmgr_register_restore_state_ex_event(on_restore);
    drmgr_register_signal_event(client_on_signal);
    dr_register_fork_init_event(client_on_fork);
}

/* A way out of DynamoRIO's cache, now and then. A signal that arrives during one of our functions waits
 * until the thread leaves the cache, which linked code of a loop without system calls never does. A thread
 * that was not seen outside for a while gets the address of an inaccessible page in mt_client.slot: the
 * next probe of it faults, between two instructions of the program. client_on_signal then makes DynamoRIO
 * continue there through its dispatcher, which delivers pending signals. */

enum { LEAVE_PAGE = 4096, OFTEN = 16 };

static const uint64_t STAY_NS = 200000000; /* a fault takes a fraction of a millisecond */
static struct mt_core_thread *trap;

static void leave_start(void)
{
    trap = dr_nonheap_alloc(LEAVE_PAGE, DR_MEMPROT_NONE);
}

static void leave_stop(void)
{
    if (trap)
        dr_nonheap_free(trap, LEAVE_PAGE);
}

/* Makes a thread leave DynamoRIO's cache at its next probe, if it has not left for a while; called at the end
 * of functions that inserted code calls. The code that continues probes before it does anything that a fault
 * would lose. */
static void leave_sometimes(struct mt_client_thread *t)
{
    if (++t->calls_inside % OFTEN || !trap || mt_client.forked)
        return;
    uint64_t now = mt_plat_now_ns(), since = t->inside_ns;
    if (since && now - since < STAY_NS)
        return;
    t->inside_ns = now;
    if (since)
        *t->slot = trap;
}

static int leave_asked(const struct mt_client_thread *t)
{
    return trap && *t->slot == trap;
}

static int leave_is(const struct mt_client_thread *t, const dr_siginfo_t *info)
{
    const byte *field = (const byte *)trap + offsetof(struct mt_core_thread, cur);
    return leave_asked(t) && info->raw_mcontext_valid && (const byte *)info->access_address == field;
}

struct mt_client mt_client;

enum { WORDS = 64 };
enum { LOCKS = 64 }; /* the default of --locks */

/* ---- options: words after the client's name, in which memtrace host writes %XX for all but letters, digits
 * and some signs ---- */

static int client_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static char *client_word(const char *given)
{
    char *word = strdup(given), *to = word;
    for (const char *at = given; to && *at; at++) {
        int high = *at == '%' ? client_digit(at[1]) : -1, low = high >= 0 ? client_digit(at[2]) : -1;
        *to++ = low >= 0 ? (char)(high << 4 | low) : *at;
        at += low >= 0 ? 2 : 0;
    }
    if (to)
        *to = 0;
    return word;
}

/* MODE --option=value … [follow=MT-HOST] */
static int client_options(int argc, const char **argv, char *why, unsigned size)
{
    static char *word[WORDS];
    const char *host = NULL;
    int n = 0;
    for (int i = 1; i < argc; i++) {
        char *w = n < WORDS ? client_word(argv[i]) : NULL;
        if (!w)
            return snprintf(why, size, "too many options for the client"), -1;
        if (strncmp(w, "follow=", 7) == 0)
            host = w + 7;
        else
            word[n++] = w;
    }
    if (n == 0)
        return snprintf(why, size, "the client has no options: run memtrace host --engine=dynamorio"), -1;
    if (mt_core_options_parse(&mt_client.options, n, word, why, size) != 0)
        return -1;
    mt_follow_start(host, "dynamorio", word, n, &mt_client.options);
    return 0;
}

/* ---- the writing thread ---- */

static struct {
    void (*run)(void *);
    void *arg;
    uint32_t state; /* 0 not started, 1 started, 2 at its end */
    pid_t process;  /* DynamoRIO makes its threads processes of their own in this memory */
    void *context;
} worker;

/* Ends the worker with the program: SIGKILL ends the program's process but not this one, which would hold
 * its pipes open. */
static void client_idle(void)
{
    if ((process_id_t)getppid() != mt_client.process)
        syscall(SYS_exit_group, 0);
}

static void client_work(void *arg)
{
    (void)arg;
    /* It holds the core's locks; a thread of the program may wait for them where DynamoRIO would wait for
     * it. */
    dr_client_thread_set_suspendable(false);
    process_ctype();
    worker.context = dr_get_current_drcontext();
    worker.process = (pid_t)syscall(SYS_gettid);
    worker.run(worker.arg);
    __atomic_store_n(&worker.state, 2u, __ATOMIC_RELEASE);
    /* A thread that ends while DynamoRIO ends the process makes it wait for ever, so client_join ends it. */
    dr_client_thread_set_suspendable(true);
    for (;;) {
        client_idle();
        dr_sleep(1000);
    }
}

static uint32_t running; /* 1: the program's first code has been seen */

static void client_begin(void)
{
    uint32_t none = 0;
    if (running && worker.run &&
        __atomic_compare_exchange_n(&worker.state, &none, 1u, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
        !dr_create_client_thread(client_work, NULL))
        __atomic_store_n(&worker.state, 0u, __ATOMIC_RELEASE);
}

/* Takes note only, before the program runs: a thread made then may start without data that DynamoRIO
 * needs. */
static int client_spawn(void (*run)(void *), void *arg, void **handle)
{
    if (worker.run)
        return EAGAIN;
    worker.run = run;
    worker.arg = arg;
    *handle = &worker;
    client_begin();
    return 0;
}

/* Starts the writing thread once the program runs. */
static void client_worker(void)
{
    running = 1;
    client_begin();
}

/* Waits ten seconds at most: when the process is torn down the thread may vanish without notice. */
static void client_join(void *handle)
{
    (void)handle;
    if (!__atomic_load_n(&worker.state, __ATOMIC_ACQUIRE)) { /* there was none */
        worker.run(worker.arg);
        return;
    }
    for (unsigned i = 0; i < 10000 && __atomic_load_n(&worker.state, __ATOMIC_ACQUIRE) != 2; i++)
        mt_plat_sleep_ns(1000000);
    /* It would outlive an exec and a fatal signal, with the program's pipes open. */
    if (worker.process > 0 && kill(worker.process, SIGKILL) == 0)
        waitpid(worker.process, NULL, __WALL);
}

static void client_yield(void)
{
    void *drcontext = dr_get_current_drcontext();
    if (drcontext && drcontext == worker.context) /* it may wait for a thread that is gone */
        client_idle();
    dr_thread_yield();
}

/* ---- start and end ---- */

static void client_exit(void)
{
    if (!mt_client.forked && (process_id_t)mt_plat_pid() == mt_client.process)
        mt_core_stop(0);
    insert_stop();
    leave_stop();
    drwrap_exit();
    drutil_exit();
    drreg_exit();
    drmgr_exit();
}

static void client_module(void *drcontext, const module_data_t *info, bool loaded)
{
    (void)drcontext, (void)loaded;
    mt_modules_look((uint64_t)(uintptr_t)info->start);
    functions_wrap();
}

static struct mt_core_engine engine = {.name = "dynamorio",
                                       .locate = mt_modules_locate,
                                       .frame = mt_modules_frame,
                                       .plain = mt_elf_variable,
                                       .sequence = mt_sequence,
                                       .yield = client_yield,
                                       .spawn = client_spawn,
                                       .join = client_join,
                                       .idle = client_idle};

/* Searches PATH. */
static const char *client_found(const char *word)
{
    static char path[4096];
    const char *at = getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        int got = snprintf(path, sizeof path, "%.*s/%s", (int)n, at, word);
        if (got > 0 && (size_t)got < sizeof path && access(path, X_OK) == 0)
            return path;
    }
    return word;
}

/* Returns the first word of the command line: DynamoRIO knows only the resolved path. */
static const char *client_called(void)
{
    static char word[4096];
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(word, 1, sizeof word - 1, f) : 0;
    word[n] = 0;
    if (f)
        fclose(f);
    return strchr(word, '/') ? word : client_found(word);
}

static int client_core(int argc, const char **argv, char *why, unsigned size)
{
    static char program[4096];
    module_data_t *main = dr_get_main_module();
    if (main && main->full_path)
        snprintf(program, sizeof program, "%s", main->full_path);
    dr_free_module_data(main);
    engine.program = *program ? program : NULL;
    engine.called = client_called();
    mt_follow_program(engine.program);
    if (client_options(argc, argv, why, size) != 0)
        return -1;
    /* A number of locks other than the default means locks in atomic mode, not turns. */
    mt_client.mode = mt_client.options.mode;
    engine.insn_turns = 1;
    engine.addresses_late = !mt_client.options.test && mt_client.options.locks == LOCKS;
    mt_client.turns =
        mt_client.options.container &&
        (mt_client.mode == MT_CORE_INSN || (mt_client.mode == MT_CORE_ATOMIC && engine.addresses_late));
    engine.addresses_late &= mt_client.turns;
    if (mt_client.turns)
        turn_start();
    if (mt_core_start(&mt_client.options, &engine, why, size) != 0)
        return -1;
    mt_modules_start(engine.program, &mt_client.options,
                     mt_client.mode == MT_CORE_MAT || mt_client.options.container ||
                         mt_client.options.others == MT_CODE_DATA,
                     functions_found);
    return 0;
}

DR_EXPORT void dr_client_main(client_id_t id, int argc, const char *argv[])
{
    static char why[512];
    drreg_options_t registers = {sizeof registers, 6, false, NULL, false};
    (void)id;
    /* Completes DynamoRIO's message after a crash: "memtrace internal crash … Please report this at", and
     * then: */
    dr_set_client_name("memtrace", "the place that you have memtrace from; without DynamoRIO: memtrace host "
                                   "--engine=qemu");
    drwrap_set_global_flags(DRWRAP_SAFE_READ_ARGS | DRWRAP_NO_FRILLS | DRWRAP_FAST_CLEANCALLS);
    if (!drmgr_init() || drreg_init(&registers) != DRREG_SUCCESS || !drutil_init() || !drwrap_init()) {
        dr_fprintf(STDERR, "memtrace: DynamoRIO's extensions do not start\n");
        dr_abort_with_code(1);
    }
    if (client_core(argc, argv, why, sizeof why) != 0) {
        dr_fprintf(STDERR, "memtrace: %s\n", why);
        dr_abort_with_code(1);
    }

    mt_client.process = dr_get_process_id();
    process_start();
    insert_start();
    drmgr_register_module_load_event(client_module);
    drmgr_register_exit_event(client_exit);
}
