/* Selects the code whose accesses are recorded (--library), and counts the accesses left out. */
#include "state.h"
#include <string.h>

/* Files of the C runtime by name: the name is followed by "." or by "-" and a digit (libc.so.6,
 * libc-2.31.so). */
static const struct {
    const char *name;
    enum mt_core_code code;
    int keeps; /* its allocations are for itself */
} runtime[] = {
    {"ld-linux-x86-64", MT_CODE_NONE, 1},
    {"ld", MT_CODE_NONE, 1},
    {"ld-musl-x86_64", MT_CODE_DATA, 1},
    {"libc", MT_CODE_DATA, 1},
    {"libm", MT_CODE_DATA, 1},
    {"libmvec", MT_CODE_DATA, 1},
    {"libpthread", MT_CODE_DATA, 1},
    {"libdl", MT_CODE_DATA, 1},
    {"librt", MT_CODE_DATA, 1},
    {"libresolv", MT_CODE_DATA, 1},
    {"libutil", MT_CODE_DATA, 1},
    {"libanl", MT_CODE_DATA, 1},
    {"libnsl", MT_CODE_DATA, 1},
    {"libnss_files", MT_CODE_DATA, 1},
    {"libnss_dns", MT_CODE_DATA, 1},
    {"libatomic", MT_CODE_DATA, 1},
    {"libgcc_s", MT_CODE_DATA, 1},
    {"libstdc++", MT_CODE_DATA, 0},
    {"libc++", MT_CODE_DATA, 0},
    {"libc++abi", MT_CODE_DATA, 0},
    {"linux-vdso", MT_CODE_DATA, 1},
    {"[vdso]", MT_CODE_DATA, 1},
};
enum { RUNTIME = sizeof runtime / sizeof *runtime };

static const char *library_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Returns the row of a file; RUNTIME: another file. */
static unsigned library_row(const char *path)
{
    const char *file = library_file(path);
    for (unsigned i = 0; i < RUNTIME; i++) {
        const char *rest = file + strlen(runtime[i].name);
        if (!strncmp(file, runtime[i].name, strlen(runtime[i].name)) &&
            (!*rest || *rest == '.' || (rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9')))
            return i;
    }
    return RUNTIME;
}

static int asked;    /* 1: this engine has --library, set for a library's file */
static uint64_t met; /* a bit for each of --library's first 64 names: some file has it */

static int library_named(const char *path)
{
    const struct mt_core_list *l = &mt_g.o->library;
    int named = 0;
    for (unsigned i = 0; i < l->count; i++)
        if (!strncmp(library_file(path), l->item[i], strlen(l->item[i]))) {
            named = 1;
            __atomic_fetch_or(&met, 1ull << i % 64, __ATOMIC_RELAXED);
        }
    return named;
}

void mt_core_library_unmet(void)
{
    const struct mt_core_list *l = &mt_g.o->library;
    for (unsigned i = 0; asked && i < l->count && i < 64; i++)
        if (!(met >> i & 1) && mt_core_code_word(l->item[i]) < 0)
            mt_plat_report("--library=%s: no code of a file whose name begins so was run", l->item[i]);
}

enum mt_core_code mt_core_code(const char *path, int program)
{
    if (program)
        return MT_CODE_ALL;
    asked = 1;
    if (library_named(path))
        return MT_CODE_ALL;
    unsigned row = mt_g.o->others == MT_CODE_DATA ? library_row(path) : RUNTIME;
    return row < RUNTIME ? runtime[row].code : mt_g.o->others == MT_CODE_DATA ? MT_CODE_ALL : mt_g.o->others;
}

int mt_core_code_keeps(const char *path, const char *function)
{
    static const char *const given[] = {"strdup",   "__strdup",   "strndup",      "__strndup", "wcsdup",
                                        "getdelim", "__getdelim", "_IO_getdelim", "getline",   "getcwd"};
    unsigned row = library_row(path);
    if (row == RUNTIME || !runtime[row].keeps)
        return 0;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (!strcmp(function, given[i]))
            return 0;
    return 1;
}

/* ---- counting ---- */

int mt_core_always(void)
{
    const struct mt_core_options *o = mt_g.o;
    return !o->signal && !o->roi && !o->registered && !o->routine.count;
}

uint64_t *mt_core_left(struct mt_core_thread *t)
{
    return t ? &t->state->left : &mt_g.left;
}

void mt_core_left_out(struct mt_core_thread *pub, uint64_t count)
{
    struct mt_core_thread_state *t = pub->state;
    if (mt_on() && t->live && (mt_g.o->mode == MT_CORE_MAT ? mt_mat_active(t) : mt_atomic_traced(t)))
        mt_core_count(&t->left, count);
}

void mt_core_allocator(struct mt_core_thread *t, int step)
{
    t->state->allocators += (unsigned)step;
}

int mt_core_wants(struct mt_core_thread *t, enum mt_core_code code, uint64_t address)
{
    if (code == MT_CODE_ALL ||
        (code == MT_CODE_DATA && !t->state->allocators && mt_alloc_meaning(t->state, address)->data))
        return 1;
    mt_core_left_out(t, 1);
    return 0;
}
