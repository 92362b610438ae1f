/* Instructions that qemu cannot run: it raises SIGILL there without naming the instruction. */
#include "refused.h"
#include "../machine/decode.h"
#include "../machine/guest.h"
#include "../machine/modules.h"
#include <stdio.h>
#include <string.h>

#define PAGE 4096u

/* Formats "file:line, in function of module", as far as known. */
static void refused_place(uint64_t ip, char *text, size_t size)
{
    struct mt_core_location p = {.line = 0};
    size_t n = 0;
    mt_modules_locate(ip, &p);
    *text = 0;
    if (*p.file)
        n += (size_t)snprintf(text, size, "%s:%u, ", p.file, p.line);
    if (*p.function && n < size)
        n += (size_t)snprintf(text + n, size - n, "in %s ", p.function);
    if (n < size)
        snprintf(text + n, size - n, "at 0x%llx of %s", (unsigned long long)ip,
                 *p.module ? p.module : "no file");
}

void mt_refused_look(uint64_t ip, unsigned size, enum mt_core_mode mode)
{
    static uint32_t said;
    struct mt_x86_words words;
    struct mt_x86_insn insn;
    unsigned room = PAGE - (unsigned)(ip % PAGE); /* the next page may not exist */
    char place[1600];
    room = room > 15 ? 15 : room < size ? size : room;
    if (mt_x86_decode(&insn, ip, mt_guest(ip), room) != 0 || insn.length <= size ||
        __atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
        return;
    mt_x86_words(&words, ip, mt_guest(ip), room);
    refused_place(ip, place, sizeof place);
    fprintf(stderr, "memtrace: qemu cannot run '%s' (%s) %s: the program gets SIGILL there; %s\n", words.text,
            mt_x86_extension(mt_guest(ip), room), place,
            mode == MT_CORE_INSN
                ? "compile it for a processor without such instructions, or trace it with --engine=pin"
                : "compile it with mt-cc --host, whose programs run on the processor itself "
                  "(--engine=llvm), or for a processor without such instructions");
}
