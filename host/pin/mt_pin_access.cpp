/* Memory accesses of instructions in mat, insn and atomic mode. Every operand has its own address. Calls
 * are inserted when code is translated and ask the core each time, so that switching on and off needs no
 * new translation. */
#include "mt_pin.h"

/* ---- mat ---- */

static VOID PIN_FAST_ANALYSIS_CALL on_access(struct mt_pin_thread *s, UINT32 site, ADDRINT address,
                                             UINT32 size)
{
    if (s->core)
        mt_core_access(s->core, site, address, size);
}

/* For code of the C runtime. */
static VOID PIN_FAST_ANALYSIS_CALL on_data(struct mt_pin_thread *s, UINT32 site, ADDRINT address, UINT32 size)
{
    if (s->core && mt_core_wants(s->core, MT_CODE_DATA, address))
        mt_core_access(s->core, site, address, size);
}

/* For code that is left out. */
static VOID on_left_out(struct mt_pin_thread *s, UINT32 count)
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

static VOID on_elements(struct mt_pin_thread *s, UINT32 site, UINT32 code, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) {
            if (mt_core_wants(s->core, (enum mt_core_code)code, a))
                mt_core_access(s->core, site, a, n);
        });
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

static VOID on_insn_elements(struct mt_pin_thread *s, UINT32 site, UINT32, IMULTI_ELEMENT_OPERAND *m)
{
    if (s->core)
        each_element(m, [&](ADDRINT a, UINT32 n) { mt_core_insn_operand(s->core, site, a, n); });
}

/* ---- atomic: locks are taken before the instruction and released after it ---- */

static VOID access_begin(struct mt_pin_thread *s, UINT32 code, struct mt_core_operand *o, UINT32 count)
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

static VOID on_begin1(struct mt_pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0)
{
    struct mt_core_operand o[] = {{a0, site, n0}};
    access_begin(s, code, o, 1);
}

static VOID on_begin2(struct mt_pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0, ADDRINT a1,
                      UINT32 n1)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}};
    access_begin(s, code, o, 2);
}

static VOID on_begin3(struct mt_pin_thread *s, UINT32 site, UINT32 code, ADDRINT a0, UINT32 n0, ADDRINT a1,
                      UINT32 n1, ADDRINT a2, UINT32 n2)
{
    struct mt_core_operand o[] = {{a0, site, n0}, {a1, site + 1, n1}, {a2, site + 2, n2}};
    access_begin(s, code, o, 3);
}

/* Gathers and scatters are not atomic accesses: each element is an access of its own, recorded before all
 * are made. */
static VOID on_atomic_elements(struct mt_pin_thread *s, UINT32 site, UINT32 code, IMULTI_ELEMENT_OPERAND *m)
{
    each_element(m, [&](ADDRINT a, UINT32 n) {
        struct mt_core_operand o = {a, site, n};
        access_begin(s, code, &o, 1);
    });
    if (s->core)
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
        IARGLIST_AddArguments(args, IARG_UINT32, always ? o->size : 0, IARG_END); /* 0: the site's size */
    else
        IARGLIST_AddArguments(args, o->reads ? IARG_MEMORYREAD_SIZE : IARG_MEMORYWRITE_SIZE, IARG_END);
}

static VOID insert_elements(INS ins, AFUNPTR f, const struct mt_pin_insn *n, const struct mt_pin_operand *o,
                            UINT32 site)
{
    INS_InsertPredicatedCall(ins, IPOINT_BEFORE, f, IARG_REG_VALUE, mt_pin_register, IARG_UINT32, site,
                             IARG_UINT32, n->code, IARG_MULTI_ELEMENT_OPERAND,
                             INS_MemoryOperandIndexToOperandIndex(ins, o->memop), IARG_END);
}

static VOID insert_operand(INS ins, const struct mt_pin_insn *n, UINT32 i, UINT32 site)
{
    const struct mt_pin_operand *o = &n->operand[i];
    BOOL insn = mt_pin_mode == MT_CORE_INSN;
    AFUNPTR f = n->code == MT_CODE_DATA ? (AFUNPTR)on_data : (AFUNPTR)on_access;
    if (o->scattered) {
        insert_elements(ins, insn ? (AFUNPTR)on_insn_elements : (AFUNPTR)on_elements, n, o, site);
        return;
    }
    IARGLIST size = IARGLIST_Alloc();
    add_size(size, o, FALSE);
    if (insn)
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)on_insn_operand, IARG_REG_VALUE,
                                 mt_pin_register, IARG_UINT32, site, IARG_MEMORYOP_EA, o->memop,
                                 IARG_IARGLIST, size, IARG_END);
    else
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, f, IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE,
                                 mt_pin_register, IARG_UINT32, site, IARG_MEMORYOP_EA, o->memop,
                                 IARG_IARGLIST, size, IARG_END);
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
                             IARG_UINT32, n->site, IARG_UINT32, n->code, IARG_IARGLIST, operands, IARG_END);
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
    struct mt_pin_insn n;
    if (!in_main(INS_Address(ins)))
        return;
    mt_pin_insn_of(ins, &n);
    if (!n.site)
        return;
    INS_InsertCall(ins, IPOINT_BEFORE, (AFUNPTR)on_insn, IARG_REG_VALUE, mt_pin_register, IARG_UINT32, n.site,
                   IARG_END);
    for (UINT32 i = 0; i < n.count; i++)
        insert_operand(ins, &n, i, n.site + 1 + i);
}

static VOID on_instruction(INS ins, VOID *)
{
    struct mt_pin_insn n;
    if (mt_pin_mode == MT_CORE_INSN) {
        instrument_insn(ins);
        return;
    }
    mt_pin_calls_instruction(ins);
    mt_pin_insn_of(ins, &n);
    if (n.code == MT_CODE_NONE && n.count)
        INS_InsertPredicatedCall(ins, IPOINT_BEFORE, (AFUNPTR)on_left_out, IARG_REG_VALUE, mt_pin_register,
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
    if (mt_pin_code(img) == MT_CODE_ALL)
        mt_core_data(IMG_Name(img).c_str(), IMG_LoadOffset(img));
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
