/* Elements of gathers, scatters and masked accesses, by Zydis. */
#include "elements.h"

#include <Zydis/Zydis.h>
#include <cpuid.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes that xsave and xrstor touch: see elements.h ---- */

enum { LEAF = 13, FIRST = 2, LAST = 62, HEADER_END = 576, LINE = 64 };

/* Returns the components that an instruction with this mask (edx:eax) may touch. */
static uint64_t xstate_asked(uint64_t mask)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return mask & ((uint64_t)high << 32 | low);
}

/* Returns the bytes from the start of the area to the end of the last of `touched`. `layout`: components
 * of the compact form; 0: standard form. */
static uint32_t xstate_bytes(uint64_t touched, uint64_t layout)
{
    uint32_t end = HEADER_END, compact = HEADER_END, size, offset, flags, none;
    for (uint32_t i = FIRST; i <= LAST; i++) {
        if (!((touched | layout) >> i & 1) || !__get_cpuid_count(LEAF, i, &size, &offset, &flags, &none))
            continue;
        if (flags & 2) /* aligned to a cache line */
            compact = (compact + LINE - 1) / LINE * LINE;
        uint32_t here = (layout ? compact : offset) + size;
        compact += size;
        if (touched >> i & 1 && here > end)
            end = here;
    }
    return end;
}

struct mt_elements_form {
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    const ZydisDecodedOperand *memory; /* the accessed one, or NULL */
};

static int elements_decode(struct mt_elements_form *n, const void *bytes, unsigned size)
{
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    n->memory = NULL;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, bytes, size, &n->i, n->o)))
        return -1;
    for (unsigned k = 0; k < n->i.operand_count && !n->memory; k++)
        if (n->o[k].type == ZYDIS_OPERAND_TYPE_MEMORY && n->o[k].actions &&
            n->o[k].mem.type != ZYDIS_MEMOP_TYPE_AGEN)
            n->memory = &n->o[k];
    return n->memory ? 0 : -1;
}

/* Returns the bytes of a mask element in a vector register; 0: no such mask. */
static unsigned elements_vector_mask(const struct mt_elements_form *n)
{
    switch (n->i.mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
        return 1;
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
        return 4;
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
        return 8;
    default:
        if (n->memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB && n->i.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
            return n->memory->element_size / 8u;
        return 0;
    }
}

static int elements_opmask(const struct mt_elements_form *n)
{
    return n->i.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX && n->i.avx.mask.reg > ZYDIS_REGISTER_K0 &&
           n->i.avx.mask.reg <= ZYDIS_REGISTER_K7;
}

/* bt, bts, btr, btc on a bit string: a register holds the bit's distance from the operand. */
static int elements_bits(const struct mt_elements_form *n)
{
    switch (n->i.mnemonic) {
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTC:
        return n->memory == &n->o[0] && n->o[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
    default:
        return 0;
    }
}

/* xsave and the like: edx:eax, and for xrstor the area's header, determine the size. */
enum { NO_STATE, SAVES, SAVES_COMPACT, RESTORES };
static int elements_state(const struct mt_elements_form *n)
{
    switch (n->i.mnemonic) {
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
        return SAVES;
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
        return SAVES_COMPACT;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
        return RESTORES;
    default:
        return NO_STATE;
    }
}

/* Returns 1 for enter without frames of other functions: a push. */
static int elements_enter(const struct mt_elements_form *n)
{
    return n->i.mnemonic == ZYDIS_MNEMONIC_ENTER && n->i.raw.imm[1].value.u == 0;
}

struct mt_elements_form *mt_elements_form(const void *bytes, unsigned size)
{
    struct mt_elements_form n, *kept = NULL;
    if (elements_decode(&n, bytes, size) == 0 &&
        (n.memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB || elements_vector_mask(&n) || elements_opmask(&n) ||
         elements_bits(&n) || elements_enter(&n) || elements_state(&n)) &&
        (kept = malloc(sizeof *kept))) {
        *kept = n;
        kept->memory = kept->o + (n.memory - n.o);
    }
    return kept;
}

/* Returns the vector register with the mask: the second explicit register of a move, the third operand of
 * a gather. */
static const ZydisDecodedOperand *elements_mask_register(const struct mt_elements_form *n)
{
    if (n->memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        return &n->o[2];
    return &n->o[1];
}

static uint64_t elements_general(const struct mt_elements_registers *r, ZydisRegister name)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
    if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
        return 0;
    uint64_t v = r->general[ZydisRegisterGetId(whole)];
    return ZydisRegisterGetClass(name) == ZYDIS_REGCLASS_GPR32 ? (uint32_t)v : v;
}

static int64_t elements_signed(const struct mt_elements_registers *r, ZydisRegister name)
{
    uint64_t v = elements_general(r, ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name));
    switch (ZydisRegisterGetClass(name)) {
    case ZYDIS_REGCLASS_GPR16:
        return (int16_t)v;
    case ZYDIS_REGCLASS_GPR32:
        return (int32_t)v;
    default:
        return (int64_t)v;
    }
}

static const uint8_t *elements_vector(const struct mt_elements_registers *r, ZydisRegister name)
{
    ZyanI8 id = ZydisRegisterGetId(name);
    return r->vector[id >= 0 && id < 32 ? id : 0];
}

static int elements_wanted(const struct mt_elements_form *n, const struct mt_elements_registers *r,
                           unsigned k)
{
    unsigned bytes = elements_vector_mask(n);
    if (bytes)
        return elements_vector(r, elements_mask_register(n)->reg.value)[k * bytes + bytes - 1] >> 7;
    if (elements_opmask(n))
        return (int)(r->mask[n->i.avx.mask.reg - ZYDIS_REGISTER_K0] >> k & 1);
    return 1;
}

static unsigned elements_index_bytes(const struct mt_elements_form *n)
{
    switch (n->i.mnemonic) {
    case ZYDIS_MNEMONIC_VGATHERDPD:
    case ZYDIS_MNEMONIC_VGATHERDPS:
    case ZYDIS_MNEMONIC_VPGATHERDD:
    case ZYDIS_MNEMONIC_VPGATHERDQ:
    case ZYDIS_MNEMONIC_VSCATTERDPD:
    case ZYDIS_MNEMONIC_VSCATTERDPS:
    case ZYDIS_MNEMONIC_VPSCATTERDD:
    case ZYDIS_MNEMONIC_VPSCATTERDQ:
        return 4;
    default:
        return 8;
    }
}

/* Returns the number of elements of a gather or scatter: as many as both its data and index vectors hold. */
static unsigned elements_gathered(const struct mt_elements_form *n, unsigned each)
{
    unsigned index = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, n->memory->mem.index) / 8u;
    const ZydisDecodedOperand *data = n->o[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? &n->o[0] : NULL;
    for (unsigned k = 1; !data && k < n->i.operand_count; k++) /* a scatter's comes last */
        if (n->o[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
            ZydisRegisterGetClass(n->o[k].reg.value) != ZYDIS_REGCLASS_MASK)
            data = &n->o[k];
    unsigned wide = data ? ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, data->reg.value) / 8u : each;
    unsigned count = index / elements_index_bytes(n), room = wide / each;
    return count < room ? count : room;
}

static uint64_t elements_index(const struct mt_elements_form *n, const struct mt_elements_registers *r,
                               unsigned k)
{
    const uint8_t *v = elements_vector(r, n->memory->mem.index);
    int64_t wide;
    int32_t narrow;
    if (elements_index_bytes(n) == 4) {
        memcpy(&narrow, v + 4 * k, sizeof narrow);
        wide = narrow;
    } else {
        memcpy(&wide, v + 8 * k, sizeof wide);
    }
    return (uint64_t)wide * n->memory->mem.scale;
}

/* Returns 1 if the chosen elements are adjacent. */
static int elements_packed(const struct mt_elements_form *n)
{
    switch (n->i.mnemonic) {
    case ZYDIS_MNEMONIC_VCOMPRESSPD:
    case ZYDIS_MNEMONIC_VCOMPRESSPS:
    case ZYDIS_MNEMONIC_VPCOMPRESSB:
    case ZYDIS_MNEMONIC_VPCOMPRESSD:
    case ZYDIS_MNEMONIC_VPCOMPRESSQ:
    case ZYDIS_MNEMONIC_VPCOMPRESSW:
    case ZYDIS_MNEMONIC_VEXPANDPD:
    case ZYDIS_MNEMONIC_VEXPANDPS:
    case ZYDIS_MNEMONIC_VPEXPANDB:
    case ZYDIS_MNEMONIC_VPEXPANDD:
    case ZYDIS_MNEMONIC_VPEXPANDQ:
    case ZYDIS_MNEMONIC_VPEXPANDW:
        return 1;
    default:
        return 0;
    }
}

/* Returns 1 if any lane of a broadcast element ({1to16}) is requested. */
static int elements_any(const struct mt_elements_form *n, const struct mt_elements_registers *r)
{
    unsigned wide = n->i.avx.vector_length, each = n->memory->element_size ? n->memory->element_size : 8;
    for (unsigned k = 0; k < wide / each; k++)
        if (elements_wanted(n, r, k))
            return 1;
    return 0;
}

/* Returns the address of element 0, as if all were there; for gathers and scatters without the index. */
static uint64_t elements_base(const struct mt_elements_form *n, const struct mt_elements_registers *r)
{
    const ZydisDecodedOperand *m = n->memory;
    uint64_t base = elements_general(r, m->mem.base) + (uint64_t)m->mem.disp.value;
    if (m->mem.segment == ZYDIS_REGISTER_FS || m->mem.segment == ZYDIS_REGISTER_GS)
        base += r->segment;
    if (m->mem.base == ZYDIS_REGISTER_RIP)
        base += r->ip + n->i.length;
    if (m->mem.type != ZYDIS_MEMOP_TYPE_VSIB)
        base += elements_general(r, m->mem.index) * m->mem.scale;
    return base;
}

/* Appends a range, or extends the last one. */
static unsigned elements_put(struct mt_element *e, unsigned found, uint64_t address, uint32_t size,
                             int joined)
{
    if (joined && found && e[found - 1].address + e[found - 1].size == address) {
        e[found - 1].size += size;
        return found;
    }
    e[found] = (struct mt_element){address, size};
    return found + 1;
}

static uint32_t elements_state_bytes(const struct mt_elements_form *n, const struct mt_elements_registers *r,
                                     uint64_t area)
{
    enum { HEADER = 512 }; /* components present; the compact form's bit and its components */
    uint64_t asked = xstate_asked(r->general[2] << 32 | (uint32_t)r->general[0]);
    if (elements_state(n) != RESTORES)
        return xstate_bytes(asked, elements_state(n) == SAVES ? 0 : asked);
    uint64_t head[2] = {0, 0};
    if (r->read(area + HEADER, head, sizeof head) != 0)
        return xstate_bytes(0, 0); /* it will fault */
    return xstate_bytes(asked & head[0], head[1] >> 63 ? head[1] : 0);
}

unsigned mt_elements(const struct mt_elements_form *n, const struct mt_elements_registers *r,
                     struct mt_element e[MT_ELEMENTS_MAX])
{
    unsigned found = 0, chosen = 0;
    const ZydisDecodedOperand *m = n->memory;
    if (elements_enter(n)) {
        uint32_t wide = n->i.operand_width == 16 ? 2 : 8;
        return elements_put(e, 0, elements_general(r, ZYDIS_REGISTER_RSP) - wide, wide, 0);
    }
    if (elements_state(n))
        return elements_put(e, 0, elements_base(n, r), elements_state_bytes(n, r, elements_base(n, r)), 0);
    if (elements_bits(n)) {
        int64_t words = elements_signed(r, n->o[1].reg.value) >> __builtin_ctz(m->size);
        return elements_put(e, 0, elements_base(n, r) + (uint64_t)words * (m->size / 8u), m->size / 8u, 0);
    }
    int scattered = m->mem.type == ZYDIS_MEMOP_TYPE_VSIB, packed = elements_packed(n);
    unsigned vector = scattered ? 0 : elements_vector_mask(n);
    uint32_t each = vector ? vector : m->element_size ? m->element_size / 8u : m->size / 8u;
    uint64_t base = elements_base(n, r);
    if (n->i.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID && !n->i.avx.broadcast.is_static)
        return elements_any(n, r) ? elements_put(e, 0, base, each, 0) : 0;
    unsigned count = scattered ? elements_gathered(n, each) : each ? m->size / 8u / each : 0;
    for (unsigned k = 0; k < count && k < MT_ELEMENTS_MAX; k++)
        if (elements_wanted(n, r, k)) {
            uint64_t at =
                scattered ? base + elements_index(n, r, k) : base + (uint64_t)(packed ? chosen : k) * each;
            found = elements_put(e, found, at, each, !scattered);
            chosen++;
        }
    return found;
}
