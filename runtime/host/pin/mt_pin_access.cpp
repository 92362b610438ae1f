/* What instructions touch: mat, insn and atomic mode. Every operand has its own address. Calls are inserted
 * when code is translated and ask the core each time,
 * so that switching on and off needs no new translation. */
#include "mt_pin.h"

/* ---- mat ---- */

static VOID PIN_FAST_ANALYSIS_CALL on_access(struct mt_pin_thread *s, UINT32 site, ADDRINT address,
                                             UINT32 size)
{
    if (s->core)
        mt_core_access(s->core, site, address, size);
}

template <typename F> static VOID each_element(IMULTI_ELEMENT_OPERAND *m, F f)
{
    for (UINT32 i = 0; i < m->NumOfElements(); i++)
        if (m->ElementMaskValue(i))
            f(m->ElementAddress(i), (UINT32)m->ElementSize(i));
}

static VOID on_elements(struct mt_pin_thread *s, UINT32 site, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) { mt_core_access(s->core, site, a, n); });
}

/* ---- insn ---- */

static VOID on_insn(struct mt_pin_thread *s, UINT32 site)
{
    if (s->core)
        mt_core_insn(s->core, site);
}

static VOID on_insn_operand(struct mt_pin_thread *s, UINT32 site, ADDRINT address, UINT32 size)
{
    if (s->core)
        mt_core_insn_operand(s->core, site, address, size);
}

static VOID on_insn_elements(struct mt_pin_thread *s, UINT32 site, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) { mt_core_insn_operand(s->core, site, a, n); });
}

/* ---- atomic: locks are taken before the instruction and given back after it ---- */

static VOID on_begin1(struct mt_pin_thread *s, UINT32 site, ADDRINT a0, UINT32 n0)
{
    struct mt_core_operand o[] = {{a0, site, n0}};
    if (s->core) {
        mt_core_atomic_end(s->core, NULL, 0, 0); /* the previous iteration of a rep */
        mt_core_atomic_begin(s->core, o, 1);
    }
}

static VOID on_begin2(struct mt_pin_thread *s, UINT32 site, ADDRINT a0, UINT32 n0, ADDRINT a1, UINT32 n1)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}};
    if (s->core) {
        mt_core_atomic_end(s->core, NULL, 0, 0);
        mt_core_atomic_begin(s->core, o, 2);
    }
}

static VOID on_begin3(struct mt_pin_thread *s, UINT32 site, ADDRINT a0, UINT32 n0, ADDRINT a1, UINT32 n1,
                      ADDRINT a2, UINT32 n2)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}, {a2, site + 2, n2}};
    if (s->core) {
        mt_core_atomic_end(s->core, NULL, 0, 0);
        mt_core_atomic_begin(s->core, o, 3);
    }
}

/* Gathers and scatters are not atomic accesses: each element is one of its own,
 * recorded before all are made. */
static VOID on_atomic_elements(struct mt_pin_thread *s, UINT32 site, IMULTI_ELEMENT_OPERAND *m)
{
    if (!s->core)
        return;
    each_element(m, [&](ADDRINT a, UINT32 n) {
        struct mt_core_operand o = {a, site, n};
        mt_core_atomic_end(s->core, NULL, 0, 0);
        mt_core_atomic_begin(s->core, &o, 1);
    });
    mt_core_atomic_end(s->core, NULL, 0, 0);
}

static VOID on_end(struct mt_pin_thread *s)
{
    mt_pin_finish(s);
}

static VOID on_end_cas(struct mt_pin_thread *s, ADDRINT flags)
{
    const ADDRINT zero_flag = 1u << 6; /* set: it wrote */
    if (s->core)
        mt_core_atomic_end(s->core, NULL, 0, !(flags & zero_flag));
}

/* ---- instrumentation ---- */

static VOID add_size(IARGLIST args, const struct mt_pin_operand *o, BOOL always)
{
    if (o->size)
        IARGLIST_AddArguments(args, IARG_UINT32, always ? o->size : 0, IARG_END); /* 0: as the site says */
    else
        IARGLIST_AddArguments(args, o->reads ? IARG_MEMORYREAD_SIZE : IARG_MEMORYWRITE_SIZE, IARG_END);
}

static VOID insert_elements(INS ins, AFUNPTR f, const struct mt_pin_operand *o, UINT32 site)
{
    INS_InsertPredicatedCall(ins, IPOINT_BEFORE, f, IARG_REG_VALUE, mt_pin_register, IARG_UINT32, site,
                             IARG_MULTI_ELEMENT_OPERAND, INS_MemoryOperandIndexToOperandIndex(ins, o->memop),
                             IARG_END);
}

static VOID insert_operand(INS ins, const struct mt_pin_operand *o, UINT32 site)
{
    BOOL insn = mt_pin_mode == MT_CORE_INSN;
    if (o->scattered) {
        insert_elements(ins, insn ? (AFUNPTR)on_insn_elements : (AFUNPTR)on_elements, o, site);
        return;
    }
    IARGLIST size = IARGLIST_Alloc();
    add_size(size, o, FALSE);
    if (insn)
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)on_insn_operand, IARG_REG_VALUE,
                                 mt_pin_register, IARG_UINT32, site, IARG_MEMORYOP_EA, o->memop,
                                 IARG_IARGLIST, size, IARG_END);
    else
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)on_access, IARG_FAST_ANALYSIS_CALL,
                                 IARG_REG_VALUE, mt_pin_register, IARG_UINT32, site, IARG_MEMORYOP_EA,
                                 o->memop, IARG_IARGLIST, size, IARG_END);
    IARGLIST_Free(size);
}

static VOID insert_begin(INS ins, const struct mt_pin_insn *n)
{
    static const AFUNPTR begin[] = {(AFUNPTR)on_begin1, (AFUNPTR)on_begin2, (AFUNPTR)on_begin3};
    IARGLIST operands = IARGLIST_Alloc();
    for (UINT32 i = 0; i < n->count; i++) {
        IARGLIST_AddArguments(operands, IARG_MEMORYOP_EA, n->operand[i].memop, IARG_END);
        add_size(operands, &n->operand[i], TRUE);
    }
    INS_InsertPredicatedCall(ins, IPOINT_BEFORE, begin[n->count - 1], IARG_REG_VALUE, mt_pin_register,
                             IARG_UINT32, n->site, IARG_IARGLIST, operands, IARG_END);
    IARGLIST_Free(operands);
}

static VOID insert_end(INS ins, IPOINT where, const struct mt_pin_insn *n)
{
    if (n->cas && where == IPOINT_AFTER)
        INS_InsertCall(ins, where, (AFUNPTR)on_end_cas, IARG_REG_VALUE, mt_pin_register, IARG_REG_VALUE,
                       LEVEL_BASE::REG_GFLAGS, IARG_END);
    else
        INS_InsertCall(ins, where, (AFUNPTR)on_end, IARG_REG_VALUE, mt_pin_register, IARG_END);
}

static VOID instrument_atomic(INS ins, const struct mt_pin_insn *n)
{
    if (n->operand[0].scattered) {
        insert_elements(ins, (AFUNPTR)on_atomic_elements, &n->operand[0], n->site);
        return;
    }
    BOOL after = INS_IsValidForIpointAfter(ins), taken = INS_IsValidForIpointTakenBranch(ins);
    insert_begin(ins, n);
    if (after)
        insert_end(ins, IPOINT_AFTER, n);
    if (taken)
        insert_end(ins, IPOINT_TAKEN_BRANCH, n);
    if (!after && !taken) /* nothing will be seen of it later: better not atomic than a lock that is kept */
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
    struct mt_pin_insn n;
    if (!in_main(INS_Address(ins)))
        return;
    mt_pin_insn_of(ins, &n);
    if (!n.site)
        return;
    INS_InsertCall(ins, IPOINT_BEFORE, (AFUNPTR)on_insn, IARG_REG_VALUE, mt_pin_register, IARG_UINT32, n.site,
                   IARG_END);
    for (UINT32 i = 0; i < n.count; i++)
        insert_operand(ins, &n.operand[i], n.site + 1 + i);
}

static VOID on_instruction(INS ins, VOID *)
{
    struct mt_pin_insn n;
    if (mt_pin_mode == MT_CORE_INSN) {
        instrument_insn(ins);
        return;
    }
    mt_pin_calls_instruction(ins);
    if (mt_pin_mode == MT_CORE_MAT && mt_core_options()->own && !in_main(INS_Address(ins)))
        return;
    mt_pin_insn_of(ins, &n);
    if (!n.site)
        return;
    if (mt_pin_mode == MT_CORE_ATOMIC)
        instrument_atomic(ins, &n);
    else
        for (UINT32 i = 0; i < n.count; i++)
            insert_operand(ins, &n.operand[i], n.site + i);
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
    if (mt_pin_mode != MT_CORE_INSN)
        mt_pin_calls_image(img);
}

static VOID on_image_gone(IMG img, VOID *)
{
    mt_pin_sites_forget(IMG_LowAddress(img), IMG_HighAddress(img));
}

VOID mt_pin_access_init(VOID)
{
    IMG_AddInstrumentFunction(on_image, NULL);
    IMG_AddUnloadFunction(on_image_gone, NULL);
    INS_AddInstrumentFunction(on_instruction, NULL);
}
