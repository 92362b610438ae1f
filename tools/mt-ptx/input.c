/* What a file carries: PTX as text, a fatbin, or an ELF file with fatbins in its sections. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/elfview.h"
#include "mt-ptx.h"

static int input_damaged(const struct input *in, const char *what)
{
    fprintf(stderr, "memtrace: %s: %s\n", in->name, what);
    return 3;
}

/* Room for one more of `n`; NULL after a message. */
static void *input_grow(void *list, unsigned n, size_t size)
{
    void *more = n & (n - 1) ? list : realloc(list, (n ? 2 * (size_t)n : 1) * size);
    if (!more) {
        fprintf(stderr, "memtrace: out of memory\n");
    }
    return more;
}

static struct module *input_add_module(struct input *in)
{
    struct module *more = input_grow(in->modules, in->n, sizeof *more);
    if (!more) {
        return NULL;
    }
    in->modules = more;
    more[in->n] = (struct module){.number = in->n};
    return &more[in->n++];
}

/* Where the fatbins of one section begin. */
struct walk {
    struct input *in;
    unsigned first;
};

static int input_add_entry(struct module *m, const struct fatbin_entry *e)
{
    struct fatbin_entry *more = input_grow(m->entries, m->n, sizeof *more);
    if (!more) {
        return 1;
    }
    m->entries = more;
    more[m->n++] = *e;
    return 0;
}

static int input_take_entry(void *ctx, unsigned fatbin, const struct fatbin_entry *e)
{
    struct walk *w = ctx;
    while (w->in->n <= w->first + fatbin) {
        if (!input_add_module(w->in)) {
            return 1;
        }
    }
    return input_add_entry(&w->in->modules[w->first + fatbin], e);
}

unsigned mt_ptxtool_module_has(const struct module *m, unsigned kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < m->n; i++) {
        n += m->entries[i].kind == kind;
    }
    return n;
}

static int input_take_fatbins(struct input *in, const unsigned char *data, size_t size)
{
    struct walk w = {in, in->n};
    return mt_ptxtool_fatbin_walk(in->name, data, size, input_take_entry, &w);
}

/* Sections that nvcc and clang put fatbins into. */
static int input_is_section(const char *name)
{
    return strcmp(name, ".nv_fatbin") == 0 || strcmp(name, "__nv_relfatbin") == 0;
}

static int input_take_elf(struct input *in)
{
    struct mt_elfview f;
    Elf64_Shdr s;
    uint64_t size, left = in->file.size;
    if (mt_elfview_read(&f, in->file.data, in->file.size) != 0) {
        return input_damaged(in, "an ELF file, but none of 64 bits");
    }
    if (!f.nsections || f.nsections < f.head.e_shnum || f.names >= f.nsections) {
        return input_damaged(in, "its table of sections is missing or damaged");
    }
    const char *names = mt_elfview_strings(&f, f.names, &size);
    if (!names) {
        return input_damaged(in, "its names of sections are damaged");
    }
    for (uint64_t i = 0; mt_elfview_section(&f, i, &s) == 0; i++) {
        if (s.sh_type == SHT_NOBITS || s.sh_name >= size || !input_is_section(names + s.sh_name)) {
            continue;
        }
        const unsigned char *fatbins = mt_elfview_contents(&f, &s);
        if (!fatbins || s.sh_size > left) {
            return input_damaged(in, "its section of device code is damaged");
        }
        left -= s.sh_size; /* sections that lie over each other would be read again and again */
        int code = input_take_fatbins(in, fatbins, s.sh_size);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

/* Not in a fatbin: PTX, or a cubin. */
static int input_take_whole(struct input *in, unsigned kind)
{
    struct module *m = input_add_module(in);
    struct fatbin_entry e = {.kind = kind, .data = in->file.data, .size = in->file.size};
    return m ? input_add_entry(m, &e) : 1;
}

static int input_is_cubin(const struct input *in)
{
    struct mt_elfview f;
    return mt_elfview_read(&f, in->file.data, in->file.size) == 0 && f.head.e_machine == EM_CUDA;
}

int mt_ptxtool_input_read(const char *name, struct input *in)
{
    *in = (struct input){.name = name};
    if (mt_cudabin_file_read(name, &in->file) != 0) {
        fprintf(stderr, "memtrace: %s: %s\n", name, strerror(errno));
        return 1;
    }
    if (in->file.size >= SELFMAG && memcmp(in->file.data, ELFMAG, SELFMAG) == 0) {
        return input_is_cubin(in) ? input_take_whole(in, FATBIN_ELF) : input_take_elf(in);
    }
    if (mt_ptxtool_fatbin_is(in->file.data, in->file.size)) {
        return input_take_fatbins(in, in->file.data, in->file.size);
    }
    if (!memmem(in->file.data, in->file.size, ".version", 8)) {
        return input_damaged(in, in->file.size ? "is neither PTX nor a fatbin nor an ELF file" : "is empty");
    }
    return input_take_whole(in, FATBIN_PTX);
}

void mt_ptxtool_input_free(struct input *in)
{
    for (unsigned i = 0; i < in->n; i++) {
        free(in->modules[i].entries);
    }
    free(in->modules);
    mt_cudabin_bytes_free(&in->file);
}
