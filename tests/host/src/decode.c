/* What Zydis says of instructions of an ELF program, for comparison with an instruction log. usage: decode
 * PROGRAM < addresses (hexadecimal, as in the file), one a line; prints "ADDRESS mnemonic R:registers
 * W:registers", TAB separated; registers sorted and separated by blanks. */
#include <Zydis/Zydis.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *file;
static long size;

static const unsigned char *bytes_at(unsigned long address, unsigned long *left)
{
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Phdr *p = (const void *)(file + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (p[i].p_type == PT_LOAD && address >= p[i].p_vaddr && address < p[i].p_vaddr + p[i].p_filesz) {
            *left = p[i].p_vaddr + p[i].p_filesz - address;
            return file + p[i].p_offset + (address - p[i].p_vaddr);
        }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
    const char *name[32];
    size_t count;
};

static void decode_add(struct names *n, ZydisRegister r)
{
    const char *name = ZydisRegisterGetString(r);
    for (size_t i = 0; name && i < n->count; i++)
        if (strcmp(n->name[i], name) == 0)
            return;
    if (name && r != ZYDIS_REGISTER_NONE)
        n->name[n->count++] = name;
}

static void decode_print(const char *head, struct names *n)
{
    qsort(n->name, n->count, sizeof *n->name, by_name);
    fputs(head, stdout);
    for (size_t i = 0; i < n->count; i++)
        printf("%s%s", i ? " " : "", n->name[i]);
}

static int decode_describe(unsigned long address)
{
    unsigned long left;
    const unsigned char *bytes = bytes_at(address, &left);
    ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    struct names reads = {.count = 0}, writes = {.count = 0};
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (!bytes || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, left, &insn, o)))
        return -1;
    for (int i = 0; i < insn.operand_count; i++) {
        int memory = o[i].type == ZYDIS_OPERAND_TYPE_MEMORY;
        if (memory) { /* to make an address, registers are read, whatever is done at it */
            decode_add(&reads, o[i].mem.base);
            decode_add(&reads, o[i].mem.index);
            if (o[i].mem.segment == ZYDIS_REGISTER_FS || o[i].mem.segment == ZYDIS_REGISTER_GS)
                decode_add(&reads, o[i].mem.segment);
        } else if (o[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
            if (o[i].actions & ZYDIS_OPERAND_ACTION_MASK_READ)
                decode_add(&reads, o[i].reg.value);
            if (o[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
                decode_add(&writes, o[i].reg.value);
        }
    }
    printf("%lx\t%s", address, ZydisMnemonicGetString(insn.mnemonic));
    decode_print("\tR:", &reads);
    decode_print("\tW:", &writes);
    putchar('\n');
    return 0;
}

int main(int argc, char **argv)
{
    char line[64];
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!f || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < (long)sizeof(Elf64_Ehdr))
        return 2;
    rewind(f);
    file = malloc((size_t)size);
    if (!file || fread(file, 1, (size_t)size, f) != (size_t)size)
        return 1;
    while (fgets(line, sizeof line, stdin))
        if (decode_describe(strtoul(line, NULL, 16)) != 0) {
            fprintf(stderr, "decode: no instruction at %s", line);
            return 1;
        }
    return 0;
}
