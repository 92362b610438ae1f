/* mat mode: code that appends entries to the thread's buffer without a call. */
#include "insert.h"
#include <stddef.h>

#define CUR ((int)offsetof(struct mt_core_thread, cur))
#define LIMIT ((int)offsetof(struct mt_core_thread, limit))
#define ENTRY ((int)sizeof(struct mt_host_entry))
enum { PAGE = 4096 };

/* ---- notes of entries filled ---- */

enum { NOTES = MT_X86_OPERANDS + 1 + MT_CORE_SLACK + 1 };

static ptr_uint_t notes; /* first note: -MT_X86_OPERANDS - 1 entries */

void mt_insert_filled(void *drcontext, instrlist_t *bb, instr_t *where, int entries)
{
    instr_t *label = INSTR_CREATE_label(drcontext);
    instr_set_note(label, (void *)(notes + (ptr_uint_t)(entries + MT_X86_OPERANDS + 1)));
    instrlist_meta_preinsert(bb, where, label);
}

int mt_insert_filled_at(void *drcontext, instrlist_t *copy, const byte *start, const byte *pc)
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

static byte *stay; /* mt_client.look for a return that must not fault (leave.c) */

static void insert_room(void)
{
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
    if (t)
        mt_client_look(t);
}

static void insert_room_or_leave(void)
{
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
    if (!t)
        return;
    mt_client_look(t);
    mt_leave_sometimes(t);
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

void mt_insert_start_room(void)
{
    notes = drmgr_reserve_note_range(NOTES);
    mt_client.look = dr_nonheap_alloc(PAGE, DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    stay = insert_make(mt_client.look, insert_room_or_leave);
    insert_make(stay, insert_room);
    dr_memory_protect(mt_client.look, PAGE, DR_MEMPROT_READ | DR_MEMPROT_EXEC);
}

void mt_insert_stop_room(void)
{
    if (mt_client.look)
        dr_nonheap_free(mt_client.look, PAGE);
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

/* Sets p to the first free entry, through the struct's address in r. The thread may leave here (leave.c)
 * and then continues at the program's instruction. */
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
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
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

void mt_insert_append(void *drcontext, instrlist_t *bb, const struct mt_step *s, reg_id_t *window)
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
        mt_insert_filled(drcontext, bb, s->instr,
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
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
    if (t && t->core && !t->calls.silent && !mt_client.forked)
        mt_core_left_out(t->core, count);
}

void mt_insert_left(void *d, instrlist_t *bb, instr_t *where, unsigned count)
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

void mt_insert_look(void *drcontext, instrlist_t *bb, instr_t *where)
{
    struct insert_point at = {drcontext, bb, where};
    reg_id_t p = insert_reserve(&at, 0), r = insert_reserve(&at, 0);
    drreg_reserve_aflags(drcontext, bb, where);
    insert_open(&at, p, r, mt_client.look);
    drreg_unreserve_aflags(drcontext, bb, where);
    insert_release(&at, p);
    insert_release(&at, r);
}

void mt_insert_probe(void *d, instrlist_t *bb, instr_t *where)
{
    struct insert_point at = {d, bb, where};
    reg_id_t r = insert_reserve(&at, 0);
    insert_first(&at, r, r);
    insert_release(&at, r);
}

/* Returns a register with the operand's address, to be released. */
reg_id_t mt_insert_address(void *drcontext, instrlist_t *bb, const struct mt_step *s, unsigned i)
{
    struct insert_point at = {drcontext, bb, s->instr};
    reg_id_t r = insert_reserve(&at, s->avoid), scratch = insert_reserve(&at, s->avoid);
    drreg_restore_app_values(drcontext, bb, s->instr, s->operand[i], NULL);
    drutil_insert_get_mem_addr(drcontext, bb, s->instr, s->operand[i], r, scratch);
    insert_release(&at, scratch);
    return r;
}

/* ---- compare-and-swap ---- */

void mt_insert_swap(void *drcontext, instrlist_t *bb, const struct mt_step *s)
{
    reg_id_t r = mt_insert_address(drcontext, bb, s, 0);
    dr_insert_write_raw_tls(drcontext, bb, s->instr, mt_client.segment, mt_client.address, r);
    drreg_unreserve_register(drcontext, bb, s->instr, r);
}

/* The flags are still the swap's: ZF means that it wrote. */
void mt_insert_swapped(void *d, instrlist_t *bb, instr_t *where, const struct mt_insn *n)
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
