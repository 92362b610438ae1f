#include "mt_pin.h"
#include <stdio.h>
#include <string.h>
#include <unordered_map>
#include <utility>

struct known {
    UINT32 site;
    UINT64 bytes; /* hash of the instruction */
};
static std::unordered_map<ADDRINT, known> *sites; /* never freed: Pin may ask until the very end */

static UINT64 hash_of(INS ins)
{
    unsigned char code[16];
    UINT64 h = 14695981039346656037u;
    size_t n = PIN_SafeCopy(code, (const VOID *)INS_Address(ins), INS_Size(ins) < 16 ? INS_Size(ins) : 16);
    for (size_t i = 0; i < n; i++)
        h = (h ^ code[i]) * 1099511628211u;
    return h;
}

static BOOL compares_and_swaps(INS ins)
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

static VOID operands_of(INS ins, struct mt_pin_insn *n)
{
    memset(n, 0, sizeof *n);
    if (INS_IsPrefetch(ins) || INS_IsNop(ins)) /* name an address and do not touch it */
        return;
    n->cas = compares_and_swaps(ins);
    for (UINT32 i = 0; i < INS_MemoryOperandCount(ins) && n->count < 3; i++) {
        struct mt_pin_operand *o = &n->operand[n->count];
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

static enum mt_host_op op_of(const struct mt_pin_insn *n, const struct mt_pin_operand *o)
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

static UINT32 sites_define(INS ins, const struct mt_pin_insn *n)
{
    struct mt_core_site s[4];
    UINT32 first = mt_pin_mode == MT_CORE_INSN;
    std::string text, reads, writes;
    memset(s, 0, sizeof s);
    for (UINT32 i = 0; i < first + n->count; i++)
        s[i].ip = INS_Address(ins);
    for (UINT32 i = 0; i < n->count; i++) {
        s[first + i].op = op_of(n, &n->operand[i]);
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

VOID mt_pin_insn_of(INS ins, struct mt_pin_insn *n)
{
    operands_of(ins, n);
    n->code = mt_pin_mode == MT_CORE_INSN ? MT_CODE_ALL : mt_pin_code(IMG_FindByAddress(INS_Address(ins)));
    if ((n->count == 0 && mt_pin_mode != MT_CORE_INSN) || n->code == MT_CODE_NONE)
        return;
    UINT64 bytes = hash_of(ins);
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

VOID mt_pin_sites_forget(ADDRINT low, ADDRINT high)
{
    if (!sites)
        return;
    for (auto i = sites->begin(); i != sites->end();)
        if (i->first >= low && i->first <= high)
            i = sites->erase(i);
        else
            ++i;
}

enum mt_core_code mt_pin_code(IMG img)
{
    return IMG_Valid(img) ? mt_core_code(IMG_Name(img).c_str(), IMG_IsMainExecutable(img))
                          : mt_core_code("", 0);
}

BOOL mt_pin_keeps(ADDRINT ip)
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

const char *mt_pin_plain(const char *symbol, char *room, unsigned size)
{
    sites_copy(room, size, PIN_UndecorateSymbolName(symbol, UNDECORATION_COMPLETE));
    return room;
}

int mt_pin_locate(uint64_t ip, struct mt_core_location *place)
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
