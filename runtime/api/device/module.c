/* Registered fat binaries with their kernels and variables, and their loading, with images made for code
 * without one. A constructor of the program may launch a kernel; then the dynamic linker's lock is held
 * before any of ours. So nothing is loaded under a lock: a thread that finds another one loading waits a
 * moment, since that one may be waiting for the dynamic linker, and then loads as well; the first image
 * counts. */
#define _GNU_SOURCE

#include "device.h"
#include "format/image.h"
#include "base/cache.h"
#include "base/child.h"
#include "base/file.h"
#include "base/held.h"
#include "base/options.h"
#include "base/report.h"
#include "base/trust.h"
#include "trace/events.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/source_name.h"
#include "api/tables/map.h"
#include "base/fork.h"
#include "trace/devices.h"
#include "trace/selection.h"

#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- CPU images of device code that came without one: made by mt-ptx, then loaded ---- */

#define WORDS 64
#define TELL_S 2 /* on a terminal: shows the time taken from this many seconds on */
#define SAY_S 10 /* elsewhere: reports the wait once, after this many seconds */
#define LOOK_MS 250

/* An image of device code that came without one. */
struct mt_made_code {
    char *name;
    char why[2048];     /* "": success, and: */
    void *block;        /* owns the rest */
    const void *fatbin; /* followed by the image: for mt_image_load_all */
    const char *words;  /* messages of mt-ptx, lines without a prefix; not terminated by NUL */
    size_t nwords;
    const struct mt_made_text *texts; /* `ntexts` bytes of them */
    size_t ntexts;
};

struct to_make {
    const struct mt_device_code *code; /* fatbins that belong together (-rdc), or one piece of any kind */
    size_t n;
    const char *kernel; /* kernel of a divided module whose image this is. NULL: the whole module, or the part
                           shared by its kernels */
    const char *content; /* hash of its source (mt_made_kernel), or "" */
};

/* ---- code in memory ---------------------------------------------------------------------------- */

static size_t make_fatbin_bytes(const unsigned char *p)
{
    uint16_t header;
    uint64_t size;
    memcpy(&header, p + 6, sizeof header);
    memcpy(&size, p + 8, sizeof size);
    return header + size;
}

/* Returns the end of the section table, the last part of the file. */
static size_t make_elf_bytes(const unsigned char *p)
{
    Elf64_Ehdr h;
    memcpy(&h, p, sizeof h);
    uint64_t end = h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize;
    uint64_t segments = h.e_phoff + (uint64_t)h.e_phnum * h.e_phentsize;
    for (unsigned i = 0; h.e_shentsize == sizeof(Elf64_Shdr) && i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, p + h.e_shoff + i * sizeof s, sizeof s);
        uint64_t to = s.sh_type == SHT_NOBITS ? 0 : s.sh_offset + s.sh_size;
        end = to > end ? to : end;
    }
    return segments > end ? segments : end;
}

size_t mt_device_code_bytes(const void *data)
{
    const unsigned char *p = data;
    if (!p || !p[0])
        return 0;
    if (!memcmp(p, "\x50\xed\x55\xba", 4))
        return make_fatbin_bytes(p);
    if (!strncmp(data, MT_LINKED_MAGIC, sizeof MT_LINKED_MAGIC))
        return ((const struct mt_linked_code *)data)->bytes;
    if (!memcmp(p, ELFMAG, SELFMAG))
        return p[EI_CLASS] == ELFCLASS64 ? make_elf_bytes(p) : 0;
    return strlen(data);
}

/* ---- the key ----------------------------------------------------------------------------------- */

/* Adds the identity of a file, without reading it. */
static void make_key_file(char *key, const char *path)
{
    struct stat st;
    uint64_t what[4] = {0};
    if (stat(path, &st) == 0) {
        what[0] = (uint64_t)st.st_size;
        what[1] = (uint64_t)st.st_mtim.tv_sec;
        what[2] = (uint64_t)st.st_mtim.tv_nsec;
        what[3] = (uint64_t)st.st_ino;
    }
    mt_cache_key(key, what, sizeof what);
}

/* Adds files installed beside the tool; in a build tree they change on their own. */
static void make_key_part(char *key, const char *tool, const char *name)
{
    const char *slash = strrchr(tool, '/');
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%.*s/../lib/memtrace/%s", slash ? (int)(slash - tool) : 0, tool, name);
    make_key_file(key, path);
}

/* Makes the key from `content` alone, so that all versions of the program share it; NULL: from the whole
 * code. */
static void make_key(char *key, const char *tool, const struct to_make *m, const char *content)
{
    const uint32_t version = MT_IMAGE_VERSION;
    const char *kernel = m->kernel ? m->kernel : "";
    *key = 0;
    mt_cache_key(key, &version, sizeof version);
    mt_cache_key(key, kernel, strlen(kernel));
    make_key_file(key, tool);
    make_key_part(key, tool, "cpu-builtins.bc");
    mt_cache_key(key, mt_options()->ptx_options, strlen(mt_options()->ptx_options));
    if (content) {
        mt_cache_key(key, content, strlen(content));
        return;
    }
    for (size_t i = 0; i < m->n; i++)
        mt_cache_key(key, m->code[i].data, m->code[i].bytes);
}

/* ---- mt-ptx ------------------------------------------------------------------------------------ */

struct mt_making {
    pid_t owner;
    int kept; /* came from the cache: the entry is set */
    struct mt_cache_entry entry;
    const char *what;                  /* name in messages */
    int input, output, words, line[2]; /* memory files; and a socket over which mt-ptx reports its progress,
                                          and each side notices the other's end */
    pid_t pid;
    int done; /* mt-ptx reported its end */
    char stage[64];
};

static int made_file_new(const char *name)
{
    return mt_fd_up(memfd_create(name, MFD_CLOEXEC));
}

/* Writes the inputs one after the other, each at a multiple of 8. */
static int make_put_input(struct mt_making *w, const struct to_make *m)
{
    off_t at = 0;
    int error = 0;
    struct mt_held h = mt_hold(SIGXFSZ);
    for (size_t i = 0; i < m->n && !error; i++)
        for (size_t done = 0, all = m->code[i].bytes; done < all && !error;) {
            ssize_t n = pwrite(w->input, (const char *)m->code[i].data + done, all - done, at);
            if (n > 0) {
                done += (size_t)n;
                at += n;
                at = done < all ? at : (at + 7) & ~(off_t)7;
            } else if (n == 0 || errno != EINTR)
                error = n ? errno : ENOSPC;
        }
    mt_let_go(&h, error);
    errno = error;
    return error ? -1 : 0;
}

static int make_open(struct mt_making *w, const struct to_make *m)
{
    w->input = made_file_new("memtrace-device-code");
    w->output = made_file_new("memtrace-image");
    w->words = made_file_new("memtrace-words");
    if (w->input < 0 || w->output < 0 || w->words < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->line))
        return -1;
    w->line[0] = mt_fd_up(w->line[0]);
    w->line[1] = mt_fd_up(w->line[1]);
    return make_put_input(w, m);
}

static void make_close(struct mt_making *w)
{
    int fd[] = {w->input, w->output, w->words, w->line[0], w->line[1]};
    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

static int make_start(struct mt_making *w, const struct to_make *m, const char *key, const char *folder,
                      char *why, size_t size)
{
    const struct mt_options *o = mt_options();
    char *words[WORDS + 11], limit[32], *options = strdup(o->ptx_options), *save = NULL;
    size_t n = 0;
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)o->cache_limit);
    words[n++] = (char *)"mt-ptx";
    words[n++] = (char *)"--serve";
    words[n++] = m->kernel ? (char *)"--kernel" : (char *)"--base";
    if (m->kernel)
        words[n++] = (char *)(uintptr_t)m->kernel;
    if (*folder) {
        words[n++] = (char *)"--cache";
        words[n++] = (char *)folder;
        words[n++] = (char *)"--cache-limit";
        words[n++] = limit;
        words[n++] = (char *)"--cache-key";
        words[n++] = (char *)key;
    }
    for (char *x = options ? strtok_r(options, " ", &save) : NULL; x && n < WORDS;
         x = strtok_r(NULL, " ", &save))
        words[n++] = x;
    words[n] = NULL;
    struct mt_child c = {
        .file = o->ptx_tool, .words = words, .fd = {w->input, w->output, w->words, w->line[1]}};
    w->pid = mt_child_start(&c, why, size);
    free(options);
    close(w->line[1]);
    w->line[1] = -1;
    return w->pid < 0 ? -1 : 0;
}

/* Reads progress messages: names of stages, each ended by LF; the last is "done". Returns 0 when mt-ptx has
 * ended. */
static int make_listen(struct mt_making *w)
{
    char text[256];
    ssize_t n = recv(w->line[0], text, sizeof text - 1, 0); /* waits up to LOOK_MS */
    if (n < 0)
        return errno == EINTR || ((errno == EAGAIN || errno == EWOULDBLOCK) && kill(w->pid, 0) == 0);
    text[n] = 0;
    for (char *save = NULL, *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save))
        snprintf(w->stage, sizeof w->stage, "%s", s);
    w->done = !strcmp(w->stage, "done");
    return n > 0 && !w->done;
}

/* Shows the progress: a changing line on a terminal, elsewhere a single one. */
static void make_tell(const struct mt_making *w, unsigned seconds, int *said)
{
    char text[256];
    int terminal = isatty(STDERR_FILENO);
    if (mt_options()->quiet || (int)seconds == *said || seconds < (terminal ? TELL_S : SAY_S))
        return;
    if (!terminal) {
        if (*said < 0)
            mt_note("the device code of %s is being made into a CPU image, which takes long this once",
                    w->what);
        *said = 0;
        return;
    }
    int n = snprintf(text, sizeof text, "\rmemtrace: making a CPU image of %.120s: %s, %u s ", w->what,
                     w->stage, seconds);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) > 0)
        *said = (int)seconds;
}

static void make_wait(struct mt_making *w)
{
    struct timespec begin, now;
    struct timeval look = {.tv_usec = LOOK_MS * 1000};
    int said = -1;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    setsockopt(w->line[0], SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    while (make_listen(w)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        make_tell(w, (unsigned)(now.tv_sec - begin.tv_sec), &said);
    }
    if (said > 0 && write(STDERR_FILENO, "\r\033[K", 4) < 0)
        return;
}

/* Reads its stderr as the reason. */
static void make_why(const struct mt_making *w, char *why, size_t size)
{
    char text[1024];
    ssize_t n = pread(w->words, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    for (char *p = text; *p; p++)
        *p = *p == '\n' ? p[1] ? ';' : 0 : *p;
    snprintf(why, size, "%s",
             *text ? text : "mt-ptx ended without a word, as what is killed: out of memory?");
}

/* ---- both -------------------------------------------------------------------------------------- */

static void make_not_kept(const char *why)
{
    static _Atomic int said;
    if (!said++)
        mt_note("CPU images and files of Python packages are not kept: %s; set MEMTRACE_CACHE to a folder "
                "that nobody else can change",
                why);
}

/* Returns the cache folder's descriptor and path, or -1 and "" if nothing is cached. */
static int make_folder(char *path, size_t size)
{
    char why[PATH_MAX + 128];
    if (!strcmp(mt_options()->cache, "off") || mt_cache_path(mt_options()->cache, path, size)) {
        *path = 0;
        return -1;
    }
    int fd = mt_cache_open(path, why, sizeof why);
    if (fd < 0) {
        *path = 0;
        make_not_kept(why);
    }
    return fd;
}

/* Returns 0 or -1: a folder for a package's files, some of which it executes, for the Python hook. All
 * existing contents are checked, since they may be older than the folder's mode. */
__attribute__((visibility("default"))) int __mt_cache_folder(const char *package, char *path, size_t size)
{
    char why[PATH_MAX + 128];
    int root = make_folder(path, size), fd = -1;
    if (root < 0)
        return -1;
    size_t n = strlen(path);
    if ((size_t)snprintf(path + n, size - n, "/python/%s", package) >= size - n)
        snprintf(why, sizeof why, "its path is too long");
    else if ((fd = mt_trust_open(path, MT_TRUST_FOLDER, why, sizeof why)) >= 0 &&
             mt_trust_contents(root, why, sizeof why)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        make_not_kept(why);
    else
        close(fd);
    close(root);
    return fd < 0 ? -1 : 0;
}

/* Checks a folder that the hook has made for a package: returns -1 after a report if other users may change
 * its contents. */
__attribute__((visibility("default"))) int __mt_trusted_folder(const char *folder, char *path, size_t size)
{
    char why[PATH_MAX + 128];
    if (mt_trust_file(folder, why, sizeof why) == 0)
        return (size_t)snprintf(path, size, "%s", folder) < size ? 0 : -1;
    mt_note("%s is not used: %s", folder, why);
    return -1;
}

/* Splits an entry: a fatbin (empty except for a GPU), the payload with the image, texts. */
static int make_take(const struct mt_cache_entry *e, struct mt_made_code *out)
{
    size_t fatbin = e->bytes < 16 ? 0 : (mt_device_code_bytes(e->made) + 7) & ~(size_t)7;
    const struct mt_payload *p = (const void *)((const char *)e->made + fatbin);
    const size_t head = fatbin + sizeof *p;
    if (fatbin < 16 || fatbin > e->bytes || e->bytes < head ||
        memcmp(p->magic, MT_PAYLOAD_MAGIC, sizeof p->magic) || p->size > e->bytes - head)
        return -1;
    size_t at = (head + p->size + 7) & ~(size_t)7;
    out->block = e->block;
    out->fatbin = e->made;
    out->words = e->words;
    out->nwords = e->nwords;
    out->texts = (const void *)((const char *)e->made + at);
    out->ntexts = at < e->bytes ? e->bytes - at : 0;
    return 0;
}

/* Returns the first or next text, or NULL at the end. Its bytes follow the head. */
static const struct mt_made_text *made_next(const struct mt_made_code *made, const struct mt_made_text *last)
{
    const char *end = (const char *)made->texts + made->ntexts;
    const char *at =
        last ? (const char *)(last + 1) + ((last->bytes + 7) & ~7ull) : (const char *)made->texts;
    const struct mt_made_text *t = (const void *)at;
    return at + sizeof *t <= end && t->bytes <= (size_t)(end - at) - sizeof *t ? t : NULL;
}

const struct mt_made_kernel *mt_made_kernel_next(const void *text, size_t bytes,
                                                 const struct mt_made_kernel *last)
{
    const char *at = last ? (const char *)last + last->bytes : text, *end = (const char *)text + bytes;
    const struct mt_made_kernel *k = (const void *)at;
    if ((size_t)(end - at) < sizeof *k || k->bytes < sizeof *k || k->bytes % 8 ||
        k->bytes > (size_t)(end - at))
        return NULL;
    const size_t room = (k->bytes - sizeof *k) / sizeof *k->places;
    return k->nplaces <= room && k->bytes > sizeof *k + k->nplaces * sizeof *k->places && !at[k->bytes - 1]
               ? k
               : NULL;
}

static int make_find_or_begin(struct mt_making *w, const struct to_make *m, char *why, size_t size)
{
    char tool[PATH_MAX], path[PATH_MAX], key[MT_CACHE_KEY], keys[2 * MT_CACHE_KEY];
    const char *content = m->content && *m->content ? m->content : NULL;
    char *name[] = {(char *)"mt-ptx", NULL};
    struct mt_child c = {.file = mt_options()->ptx_tool, .words = name};
    if (getauxval(AT_SECURE)) {
        snprintf(why, size, "no CPU image is made of device code in a setuid program");
        return -1;
    }
    mt_child_file(&c, tool, sizeof tool);
    if (*c.file && mt_trust_file(c.file, why, size))
        return -1;
    int folder = -1;
    *path = *keys = 0;
    if (*tool) /* without the tool no key can be made */
        folder = make_folder(path, sizeof path);
    for (int whole = !content; whole < 2 && !w->kept; whole++) {
        make_key(key, tool, m, whole ? NULL : content);
        w->kept = folder >= 0 && mt_cache_find(folder, key, &w->entry) == 0;
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%s", *keys ? "," : "", key);
    }
    if (folder >= 0)
        close(folder);
    if (w->kept)
        return 0;
    if (make_open(w, m)) {
        snprintf(why, size, "no memory for its device code: %s", strerror(errno));
        return -1;
    }
    return make_start(w, m, keys, path, why, size);
}

/* mt-ptx notices, and ends */
static void making_drop(struct mt_making *w)
{
    make_close(w);
    free(w->entry.block);
    free(w);
}

/* Waits for the image as c->name, reporting a long wait, and frees w. Sets c->why. */
static void making_end(struct mt_making *w, struct mt_made_code *c)
{
    int saved = errno;
    w->what = c->name ? c->name : "device code";
    *c->why = 0;
    if (!w->kept) {
        make_wait(w);
        if (!w->done || mt_cache_read(w->output, &w->entry))
            make_why(w, c->why, sizeof c->why);
    }
    if (!*c->why && make_take(&w->entry, c))
        snprintf(c->why, sizeof c->why, "what mt-ptx has made of it is damaged");
    if (!*c->why)
        w->entry.block = NULL; /* now owned by c */
    making_drop(w);
    errno = saved;
}

/* Line mapping of an image made for another version of the program: its tables are copied, and never freed.
 */

struct lines {
    const struct mt_made_kernel *then, *now;
    const char *ptx; /* PTX file name of `now`, never freed */
};

/* Maps a file and line. Files are equal in both versions, except PTX that is its own source. */
static void lines_change(const struct lines *l, const char **file, uint32_t *line)
{
    int own = !strcmp(*file, l->then->ptx);
    uint32_t hash = own ? 0 : mt_made_file(*file);
    for (uint64_t i = 0; i < l->then->nplaces && *line; i++) {
        const struct mt_made_place *from = &l->then->places[i];
        if (from->file == hash && *line - from->line < from->lines) {
            *line += l->now->places[i].line - from->line;
            break;
        }
    }
    if (own)
        *file = l->ptx;
}

static int lines_are_those(const struct mt_made_kernel *then, const struct mt_made_kernel *now)
{
    return !strcmp(then->ptx, now->ptx) &&
           !memcmp(then->places, now->places, now->nplaces * sizeof *now->places);
}

static void *lines_copy(const void *table, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    return copy && bytes ? memcpy(copy, table, bytes) : copy;
}

static int lines_move(struct mt_image *image, const struct mt_made_kernel *then,
                      const struct mt_made_kernel *now)
{
    struct lines l = {.then = then, .now = now};
    const struct mt_image_head *old = image->head;
    if (then->nplaces != now->nplaces || lines_are_those(then, now))
        return 0;
    struct mt_image_head *head = lines_copy(old, sizeof *head);
    struct mt_image_kernel *kernels = lines_copy(old->kernels, old->nkernels * sizeof *kernels);
    struct mt_image_site *sites = lines_copy(old->sites, old->nsites * sizeof *sites);
    struct mt_image_note *notes = lines_copy(old->notes, old->nnotes * sizeof *notes);
    l.ptx = strdup(now->ptx);
    if (!head || !kernels || !sites || !notes || !l.ptx) {
        free(head);
        free(kernels);
        free(sites);
        free(notes);
        free((void *)(uintptr_t)l.ptx);
        return -1;
    }
    for (uint32_t i = 0; i < old->nkernels; i++)
        lines_change(&l, (const char **)&kernels[i].file, &kernels[i].line);
    for (uint32_t i = 0; i < old->nsites; i++)
        lines_change(&l, (const char **)&sites[i].file, &sites[i].line);
    for (uint32_t i = 0; i < old->nnotes; i++)
        lines_change(&l, (const char **)&notes[i].file, &notes[i].line);
    head->kernels = kernels;
    head->sites = sites;
    head->notes = notes;
    image->head = head;
    return 0;
}

/* ---- Images of modules without one: code of other compilers ---- */

#define LINES 16 /* printed messages of mt-ptx; the number of further ones follows */

/* Returns the name of the program or library that contains the module's code, from the dynamic linker. */
static const char *made_name(const struct mt_module *m)
{
    Dl_info info;
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    const char *name = n && dladdr(fatbins[0], &info) && info.dli_fname ? info.dli_fname
                                                                        : "code loaded at run time",
               *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void made_tell(const char *what, const struct mt_made_code *made)
{
    const char *at = made->words, *end = at + made->nwords;
    unsigned n = 0;
    for (; at < end; n++) {
        const char *lf = memchr(at, '\n', (size_t)(end - at)), *stop = lf ? lf : end;
        if (n < LINES)
            mt_report_once("%s: %.*s", what, (int)(stop - at), at);
        at = stop + 1;
    }
    if (n > LINES)
        mt_report("%s: %u more lines of this kind: mt-ptx says all of them", what, n - LINES);
}

/* Begins to make an image of the module's code, or finds it in the cache: of `kernel`, or of all if NULL. */
static struct mt_making *making_begin(const struct mt_module *m, const char *name,
                                      const struct mt_made_kernel *kernel, char *why, size_t size)
{
    size_t n;
    int saved = errno;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    struct mt_device_code *code = calloc(n ? n : 1, sizeof *code);
    struct mt_making *w = code && n ? malloc(sizeof *w) : NULL;
    if (code && n && !w)
        snprintf(why, size, "no memory");
    for (size_t i = 0; w && i < n; i++)
        code[i] = (struct mt_device_code){fatbins[i], mt_device_code_bytes(fatbins[i])};
    const struct to_make make = {code, n, kernel ? mt_made_kernel_name(kernel) : NULL,
                                 kernel ? kernel->content : NULL};
    if (w)
        *w = (struct mt_making){.owner = getpid(),
                                .what = name,
                                .input = -1,
                                .output = -1,
                                .words = -1,
                                .line = {-1, -1},
                                .stage = "starting"};
    if (w && make_find_or_begin(w, &make, why, size)) {
        making_drop(w);
        w = NULL;
    }
    free(code);
    errno = saved;
    return w;
}

/* Begins to make a kernel's image ahead of time. Returns NULL if that is impossible. */
static struct mt_making *made_begin(const struct mt_module *m, const char *name,
                                    const struct mt_made_kernel *kernel)
{
    char why[64]; /* reported once it is really needed */
    return making_begin(m, name, kernel, why, sizeof why);
}

/* Makes an image of the module's device code, which may take seconds: of the kernel `name` that its base
 * lists, or of all if NULL; uses up `begun`, or NULL. Returns NULL if out of memory. */
static struct mt_made_code *made_ask(const struct mt_module *m, const char *name,
                                     const struct mt_made_kernel *kernel, struct mt_making *begun)
{
    struct mt_made_code *c = calloc(1, sizeof *c);
    if (begun && (!c || begun->owner != getpid())) {
        making_drop(begun);
        begun = NULL;
    }
    if (!c)
        return NULL;
    strcpy(c->why, "no memory");
    c->name = strdup(name);
    if (!begun)
        begun = making_begin(m, name, kernel, c->why, sizeof c->why);
    if (begun)
        making_end(begun, c);
    for (const struct mt_made_text *t = NULL; !*c->why && mt_tracing() && (t = made_next(c, t));)
        if (*t->name)
            mt_source_keep(t->name, t + 1, t->bytes);
    return c;
}

static const struct mt_made_text *made_kernels(const struct mt_made_code *c)
{
    const struct mt_made_text *t = NULL;
    while (!*c->why && (t = made_next(c, t)) && *t->name)
        ;
    return *c->why ? NULL : t;
}

/* Returns the kernels to be requested by name (mt_made_kernel_next), freed by the caller, or NULL if all are
 * in the image. */
static void *made_kernel_list(const struct mt_made_code *c, size_t *bytes)
{
    const struct mt_made_text *t = c ? made_kernels(c) : NULL;
    void *copy = t && t->bytes ? malloc(t->bytes) : NULL;
    if (!copy)
        return NULL;
    *bytes = t->bytes;
    return memcpy(copy, t + 1, t->bytes);
}

/* Moves the lines of an image made for another version of the program. */
static void made_move(const struct mt_made_code *c, struct mt_image *image, const struct mt_made_kernel *now)
{
    const struct mt_made_text *t = made_kernels(c);
    const struct mt_made_kernel *then = t ? mt_made_kernel_next(t + 1, t->bytes, NULL) : NULL;
    if (then && lines_move(image, then, now))
        mt_report("%s: no memory: lines of accesses are those of an older version", c->name);
}

/* Loads the image, a kernel's under its `base` (or NULL) and with its lines there, and reports the code that
 * could not be converted. Returns NULL with *why set to a constant sentence. */
static struct mt_image *made_load(struct mt_made_code *c, struct mt_image *base,
                                  const struct mt_made_kernel *kernel, const char **why)
{
    const char *bad = NULL;
    struct mt_image *image = c && !*c->why ? mt_image_load_all(&c->fatbin, 1, base, &bad) : NULL;
    if (image && kernel)
        made_move(c, image, kernel);
    if (c && !*c->why)
        made_tell(c->name ? c->name : "device code", c);
    *why = image ? NULL : strdup(bad ? bad : c ? c->why : "no memory");
    return image;
}

static void made_free(struct mt_made_code *c)
{
    if (c) {
        free(c->block);
        free(c->name);
    }
    free(c);
}

/* The two versions of kernels on a GPU, with and without record calls (llvm-pass/gpu/context.c). The
 * program knows the one without, under its own name; the version to run is chosen at each launch. Launches of
 * handles given out by the runtime, and programs without tables, run that one, too. Queries about a kernel
 * are answered from it, unless the other version allows less; attributes are set on both. */

static void plain_register_as(void **real, struct mt_function *f, const void *key, char *name)
{
    MT_NEXT(__cudaRegisterFunction)
    (real, key, name, name, f->thread_limit, NULL, NULL, NULL, NULL, NULL);
}

/* Registers f, and its version with record calls if the GPU's code has one, with the real runtime. The module
 * of f is loaded. */
static void function_register(void **real, struct mt_function *f)
{
    uint32_t flags = f->kernel ? f->kernel->flags : 0;
    size_t n = strlen(f->name) + sizeof MT_TRACED_SUFFIX;
    char *name = flags & MT_KERNEL_GPU_RECORDS ? malloc(n) : NULL;
    if (name)
        snprintf(name, n, "%s%s", f->name,
                 MT_TRACED_SUFFIX); /* never freed: the runtime may keep the pointer */
    if (name && flags & MT_KERNEL_GPU_ALONE) {
        plain_register_as(real, f, f->host, name);
        return;
    }
    MT_NEXT(__cudaRegisterFunction)
    (real, f->host, f->device, f->name, f->thread_limit, NULL, NULL, NULL, NULL, NULL);
    if (!name)
        return;
    plain_register_as(real, f, &f->traced_key, name);
    mt_function_alias(&f->traced_key, f);
    f->has_traced = 1;
}

const void *mt_function_traced(const struct mt_function *f)
{
    return f->has_traced ? &f->traced_key : f->host;
}

const void *mt_function_plain(const struct mt_function *f)
{
    return f && f->has_traced ? f->host : NULL;
}

static unsigned threads_of(const struct mt_launch_config *c)
{
    return c->block.x * c->block.y * c->block.z;
}

static uint64_t blocks_of(const struct mt_launch_config *c)
{
    return (uint64_t)c->grid.x * c->grid.y * c->grid.z;
}

/* Returns the error that a launch of `func` would give, as far as the runtime can tell. */
static cudaError_t plain_refusal(const void *func, const struct mt_launch_config *c)
{
    struct cudaFuncAttributes a;
    int device, sms, each;
    int known = !MT_NEXT(cudaFuncGetAttributes)(&a, func);
    if (known && threads_of(c) > (unsigned)a.maxThreadsPerBlock)
        return cudaErrorLaunchOutOfResources;
    if (known && a.maxDynamicSharedSizeBytes > 0 && c->shared > (size_t)a.maxDynamicSharedSizeBytes)
        return cudaErrorInvalidValue;
    if (c->cooperative && !MT_NEXT(cudaGetDevice)(&device) &&
        !MT_NEXT(cudaDeviceGetAttribute)(&sms, cudaDevAttrMultiProcessorCount, device) &&
        !MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&each, func, (int)threads_of(c), c->shared) &&
        blocks_of(c) > (uint64_t)each * (unsigned)sms)
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}

cudaError_t mt_function_must_plain(const struct mt_function *f, const struct mt_launch_config *c)
{
    cudaError_t e = mt_function_plain(f) ? plain_refusal(mt_function_traced(f), c) : cudaSuccess;
    return e && !plain_refusal(mt_function_plain(f), c) ? e : cudaSuccess;
}

void mt_function_tell_plain(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why)
{
    const char *name = f->kernel->pretty;
    if (atomic_exchange(&f->told, 1))
        return;
    if (why == cudaErrorCooperativeLaunchTooLarge)
        mt_report(
            "kernel %s is not traced: with record calls, fewer than its %llu blocks of %u threads fit on "
            "the GPU at once (said once for each kernel)",
            mt_short(name).text, (unsigned long long)blocks_of(c), threads_of(c));
    else if (why == cudaErrorInvalidValue)
        mt_report(
            "kernel %s is not traced: with record calls, %llu bytes of dynamic shared memory are more than "
            "there are (said once for each kernel)",
            mt_short(name).text, (unsigned long long)c->shared);
    else
        mt_report(
            "kernel %s is not traced: with record calls, a block of %u threads needs more registers than "
            "the GPU has (said once for each kernel)",
            mt_short(name).text, threads_of(c));
}

/* Returns the other version of the program's kernel, or NULL if there is none. */
static const void *plain_other(const void *func)
{
    struct mt_function *f = mt_device_is_gpu() ? mt_function_find(func) : NULL;
    return f && f->has_traced && func != &f->traced_key ? mt_function_traced(f) : NULL;
}

cudaError_t rec_cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    const void *other = plain_other(func);
    struct cudaFuncAttributes traced;
    cudaError_t e = MT_NEXT(cudaFuncGetAttributes)(a, func);
    if (e || !other || MT_NEXT(cudaFuncGetAttributes)(&traced, other))
        return e;
    if (traced.maxThreadsPerBlock < a->maxThreadsPerBlock)
        a->maxThreadsPerBlock = traced.maxThreadsPerBlock;
    return e;
}

cudaError_t rec_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetAttribute)(func, a, value);
    int clean = mt_error_hold();
    if (!e && other) /* shared memory that does not fit beside the needs of record calls: such launches run
                        without them */
        MT_NEXT(cudaFuncSetAttribute)(other, a, value);
    mt_error_release(clean);
    return e;
}

cudaError_t rec_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetCacheConfig)(func, config);
    return e || !other ? e : MT_NEXT(cudaFuncSetCacheConfig)(other, config);
}

#if CUDART_VERSION < 14000
cudaError_t rec_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    const void *other = plain_other(func);
    cudaError_t e = MT_NEXT(cudaFuncSetSharedMemConfig)(func, config);
    return e || !other ? e : MT_NEXT(cudaFuncSetSharedMemConfig)(other, config);
}
#endif

/* ---- occupancy: queried for the version with record calls, so that a grid sized by it fits when traced ----
 */

static const void *plain_larger(const void *func)
{
    const void *other = plain_other(func);
    return other ? other : func;
}

cudaError_t rec_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads,
                                                              size_t shared)
{
    return MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, plain_larger(func), threads,
                                                                  shared);
}

cudaError_t rec_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
                                                                       int threads, size_t shared,
                                                                       unsigned flags)
{
    return MT_NEXT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, plain_larger(func),
                                                                           threads, shared, flags);
}

cudaError_t rec_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *func, int blocks,
                                                          int threads)
{
    return MT_NEXT(cudaOccupancyAvailableDynamicSMemPerBlock)(bytes, plain_larger(func), blocks, threads);
}

#if CUDART_VERSION >= 11080
cudaError_t rec_cudaOccupancyMaxPotentialClusterSize(int *size, const void *func,
                                                     const cudaLaunchConfig_t *config)
{
    return MT_NEXT(cudaOccupancyMaxPotentialClusterSize)(size, plain_larger(func), config);
}

cudaError_t rec_cudaOccupancyMaxActiveClusters(int *clusters, const void *func,
                                               const cudaLaunchConfig_t *config)
{
    return MT_NEXT(cudaOccupancyMaxActiveClusters)(clusters, plain_larger(func), config);
}
#endif

/* ---- kernel handles given to the program, which the driver among others can launch, unseen by us ---- */

static cudaError_t plain_handed_out(cudaError_t e, void *const *handle, const void *func)
{
    static atomic_int said;
    struct mt_function *f = e ? NULL : mt_function_find(func);
    if (!f)
        return e;
    mt_function_alias(*handle, f);
    if (f->has_traced && !atomic_exchange(&said, 1))
        mt_note("kernel %s was handed out by the CUDA runtime: launches of such by the driver "
                "(cuLaunchKernel) are "
                "not traced (said once)",
                mt_short((const char *)f->kernel->pretty).text);
    return e;
}

/* Returns whether the kernel's only version takes an argument unknown to the program. */
static int plain_keeps(const void *func)
{
    const struct mt_function *f = mt_function_find(func);
    if (!f || !f->kernel || !(f->kernel->flags & MT_KERNEL_GPU_ALONE))
        return 0;
    mt_report("kernel %s is not handed out: it was compiled with gpu-plain=off",
              mt_short((const char *)f->kernel->pretty).text);
    return 1;
}

#if CUDART_VERSION >= 12010
cudaError_t rec_cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaGetKernel)(kernel, func);
    return plain_keeps(func)
               ? cudaErrorNotSupported
               : plain_handed_out(MT_NEXT(cudaGetKernel)(kernel, func), (void *const *)kernel, func);
}
#endif

cudaError_t rec_cudaGetFuncBySymbol(cudaFunction_t *function, const void *func)
{
    if (!mt_device_is_gpu())
        return MT_NEXT(cudaGetFuncBySymbol)(function, func);
    return plain_keeps(func) ? cudaErrorNotSupported
                             : plain_handed_out(MT_NEXT(cudaGetFuncBySymbol)(function, func),
                                                (void *const *)function, func);
}

#define PATIENCE_MS 1000
#define AHEAD_MOST 8 /* most kernel images made ahead of time without being used */
#define WRONG_MOST 2

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
MT_FORK_ENTRY(lock, &lock, MT_FORK_RECURSIVE, MT_FORK_MODULES);
static struct mt_module *modules, **modules_end = &modules;
static _Atomic unsigned modules_unloaded; /* modules before MT_MODULE_LOADED */
static int to_gpu, symbols_logged;
static struct mt_map functions = MT_MAP_INIT, variables = MT_MAP_INIT;
MT_FORK_TABLE(functions);
MT_FORK_TABLE(variables);
static pthread_mutex_t making =
    PTHREAD_MUTEX_INITIALIZER; /* held while mt-ptx runs, which may take seconds */
MT_FORK_LOCK(making, MT_FORK_MODULES);
static _Thread_local int module_inside; /* set while constructors of images run */

const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n)
{
    if (!m->fatbins)
        return mt_image_fatbins(m->wrapper, n);
    *n = m->nfatbins;
    return m->fatbins;
}

/* Reports once per module why its kernels cannot run; `kernel` (or variable) is the first one missing.
 * Returns 1 if it was reported now. */
static int module_complain(struct mt_module *m, const char *mangled)
{
    pthread_mutex_lock(&lock);
    int said = m->said;
    m->said = 1;
    pthread_mutex_unlock(&lock);
    mt_demangle_prepare();
    char *demangled = mt_demangle(mangled);
    const char *kernel = demangled ? demangled : mangled;
    if (!said && m->why == mt_image_limit)
        mt_report("kernel %s cannot run on the CPU device: %s", mt_short(kernel).text, m->why);
    else if (!said && m->foreign)
        mt_report("%s has no code for the CPU device: %s; mt-cc compiles its file with such code",
                  mt_short(kernel).text, m->why ? m->why : "there is no memory");
    else if (!said)
        mt_report(
            "kernel %s cannot run on the CPU device: %s; compile its file with mt-cc (without --plain: "
            "MEMTRACE_ENABLE=0 runs a program untraced), or with clang++ -fplugin=libMemtrace-AA.so and "
            "--cuda-path=<build>/cuda-overlay",
            mt_short(kernel).text, m->why ? m->why : "its file has no CPU image");
    free(demangled);
    return !said;
}

void mt_function_complain(struct mt_function *f)
{
    int said = atomic_exchange(&f->told, 1), alone = f->module->image && f->module->foreign;
    if ((!alone && module_complain(f->module, f->name)) || said || !f->module->foreign)
        return;
    mt_demangle_prepare();
    char *name = mt_demangle(f->name);
    if (alone)
        mt_report("kernel %s cannot run on the CPU device: %s", mt_short(name ? name : f->name).text,
                  f->why ? f->why : "there is no PTX of it beside that of others of its file");
    else
        mt_report("kernel %s cannot run on the CPU device, like others of its file",
                  mt_short(name ? name : f->name).text);
    free(name);
}

void mt_module_untraced(struct mt_module *m, const char *kernel)
{
    pthread_mutex_lock(&lock);
    int said = m->said || m->why == mt_image_too_old;
    m->said = 1;
    pthread_mutex_unlock(&lock);
    if (!said)
        mt_note("kernel %s and others of its file run on the GPU without a trace: %s", mt_short(kernel).text,
                m->why ? m->why : "its file has no CPU image");
}

/* ---- variables ---- */

static int variables_are_managed(const struct mt_module *m)
{
    const struct mt_variable *v = m->variables;
    while (v && !v->managed && !v->own)
        v = v->next;
    return v != NULL;
}

/* Sets the address on the CPU device; NULL: none. */
static void variable_lies(struct mt_variable *v, void *address)
{
    v->address = address;
    if (!v->managed || !address)
        return;
    *v->managed = address;
    if (mt_map_set(&variables, address, v)) /* nvcc's host code refers to it by this address */
        mt_report("out of memory: device variable %s has no address", mt_short(v->name).text);
}

/* Returns 0 after a report if a GPU cannot have the variables; the module's kernels must not run there. */
static int variables_are_for_gpu(const struct mt_module *m)
{
    for (const struct mt_variable *v = m->variables; v; v = v->next)
        if (v->own) {
            mt_report("clang 19 has no __managed__ variables for GPUs (%s): the kernels of its file do not "
                      "run there. "
                      "Compile the program with nvcc and run it with memtrace run",
                      mt_short(v->name).text);
            return 0;
        }
    return 1;
}

static void variables_to_gpu(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next)
        if (v->managed)
            MT_NEXT(__cudaRegisterManagedVar)
    (m->real, v->managed, v->device, v->name, v->ext, v->size, v->constant, v->global);
    else MT_NEXT(__cudaRegisterVar)(m->real, (char *)(uintptr_t)v->host, v->device, v->name, v->ext, v->size,
                                    v->constant, v->global);
}

static void variables_forget(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        mt_map_drop(&variables, v->host, v);
        if (v->managed)
            mt_map_drop(&variables, v->address, v);
        if (v->own)
            mt_heap_free(v->address, 1u << MT_HEAP_SYMBOL);
    }
}

/* ---- loading ---- */

/* Waits while another thread is loading; state: below `done` until then. */
static void module_wait(const _Atomic int *loading, const _Atomic unsigned *state, unsigned done)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < PATIENCE_MS && *loading && *state < done; i++)
        nanosleep(&moment, NULL);
}

/* Advances a state; it never goes back. */
static void module_reach(_Atomic unsigned *state, unsigned next)
{
    unsigned now = *state;
    while (now < next && !atomic_compare_exchange_weak(state, &now, next))
        ;
}

static void module_bind_functions(struct mt_module *m)
{
    for (struct mt_function *f = m->functions; f; f = f->next) {
        f->kernel = m->image ? mt_image_find_kernel(m->image, f->name) : NULL;
        f->image = m->image;
    }
}

static void *image_var_address(const struct mt_image_var *v)
{
    void *address = (void *)(uintptr_t)v->address;
    return v->kind == MT_VAR_MANAGED ? *(void **)address : address;
}

/* Moves a variable of kind MT_VAR_MANAGED with its first value to `bytes` of host memory; called before
 * any launch. */
static void image_move_var(const struct mt_image_var *v, void *to, uint64_t bytes)
{
    void **place = (void **)(uintptr_t)v->address;
    if (v->kind != MT_VAR_MANAGED || bytes != v->size || *place == to)
        return;
    memcpy(to, *place, v->size);
    *place = to;
}

static void module_bind_variables(struct mt_module *m)
{
    for (struct mt_variable *v = m->variables; v; v = v->next) {
        const struct mt_image_var *iv = m->image ? mt_image_find_var(m->image, v->name) : NULL;
        if (iv && v->own)
            image_move_var(iv, (void *)(uintptr_t)v->host, v->size);
        variable_lies(v, iv ? image_var_address(iv) : NULL);
    }
}

/* Adds all variables of the image, registered or not, to the memory that kernels may access. Managed ones
 * exist in device 0's image only, and belong to no device. */
static void module_list_variables(const struct mt_image *image, int device)
{
    const struct mt_image_var *v = image->head->vars;
    for (uint32_t i = 0; i < image->head->nvars; i++, v++) {
        if (!mt_image_owns(image, v->address)) /* an inline variable, defined in another image */
            continue;
        int managed = v->kind == MT_VAR_MANAGED;
        if (managed && device > 0)
            continue;
        void *at = image_var_address(v);
        mt_heap_adopt(device, at, v->size, MT_HEAP_SYMBOL, v->kind);
        uint64_t id = mt_event_alloc((uint64_t)(uintptr_t)at, v->size, "symbol", v->name,
                                     managed ? -1 : device, NULL, -1);
        if (mt_tracing())
            mt_heap_identify(at, (int64_t)id);
    }
}

/* Reads the tables of an image, on both devices. */
static void module_bind_tables(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        mt_event_sites(i->head, i->site_base);
    module_bind_functions(m);
}

static void module_bind_addresses(struct mt_module *m)
{
    module_bind_variables(m);
    for (const struct mt_image *i = m->image; i; i = i->peer)
        module_list_variables(i, 0);
}

struct mt_image *mt_module_image_on(struct mt_image *image, int device)
{
    const char *why = NULL;
    struct mt_image *loaded, *on = mt_image_on(image, device, &loaded, &why);
    if (!on)
        mt_report("device code of %s is not loaded for GPU %d: %s", (const char *)image->head->source, device,
                  why);
    for (const struct mt_image *i = loaded; i && i->copies == loaded->copies; i = i->peer)
        module_list_variables(i, device);
    return on;
}

/* Gives a module its image, and kernels and variables their table entries; or keeps `why`, the reason for
 * having no image. */
static void module_bind(struct mt_module *m, struct mt_image *image, const char *why)
{
    pthread_mutex_lock(&lock);
    m->image = image;
    m->why = why;
    module_bind_tables(m);
    if (!mt_device_chosen_gpu())
        module_bind_addresses(m);
    pthread_mutex_unlock(&lock);
}

/* Loads the image carried by the module, if any. */
static struct mt_image *module_load_carried(struct mt_module *m, int *foreign, const char **why)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    int carried = !fatbins || mt_image_carried(fatbins, n);
    if (mt_device_cudart()) { /* a GPU runs the code, not this processor */
        mt_cpu_settings.tables_only = 1;
    } else if (!carried) {
        *foreign = 1;
        return NULL;
    }
    return fatbins ? mt_image_load_all(fatbins, n, NULL, why) : mt_image_load(m->wrapper, why);
}

static void module_read(struct mt_module *m)
{
    const char *why = NULL;
    int foreign = 0;
    module_wait(&m->loading, &m->state, MT_MODULE_READ);
    if (m->state >= MT_MODULE_READ)
        return;
    m->loading++;
    module_inside = 1;
    struct mt_image *image = module_load_carried(m, &foreign, &why);
    module_inside = 0;
    mt_demangle_prepare();
    pthread_mutex_lock(&lock);
    if (m->state < MT_MODULE_READ) {
        m->foreign = foreign;
        m->image = image;
        m->why = image || !why || why == mt_image_too_old || why == mt_image_limit ? why : strdup(why);
        module_bind_tables(m);
        m->state = MT_MODULE_READ;
    }
    pthread_mutex_unlock(&lock);
    m->loading--;
}

static void module_send(struct mt_module *m)
{
    if (!mt_device_cudart())
        return;
    if (m->fatbins) {
        mt_report("device code of several files (-fgpu-rdc) is not linked for the GPU: link the program with "
                  "mt-cc");
        return;
    }
    if (!variables_are_for_gpu(m))
        return;
    int too_old = m->why == mt_image_too_old; /* its kernels would expect an argument that nobody passes */
    m->real = MT_NEXT(__cudaRegisterFatBinary)((void *)(uintptr_t)m->wrapper);
    if (too_old && m->functions)
        mt_report("kernel %s and others of its file cannot run: %s", mt_short(m->functions->name).text,
                  m->why);
    for (struct mt_function *f = too_old ? NULL : m->functions; f; f = f->next)
        function_register(m->real, f);
    variables_to_gpu(m);
    MT_NEXT(__cudaRegisterFatBinaryEnd)(m->real);
}

/* Announces the module to the device in use; under the lock. */
static void module_load(struct mt_module *m, int gpu)
{
    m->state = MT_MODULE_LOADED;
    if (gpu)
        module_send(m);
    else /* names and sites are the image's, addresses are not */
        module_bind_addresses(m);
    modules_unloaded--; /* last, since other threads skip the lock when nothing is left */
}

static struct mt_module *modules_due(void)
{
    struct mt_module *m = modules;
    while (m && m->state != MT_MODULE_ENDED && m->state != MT_MODULE_READ)
        m = m->next;
    return m;
}

static void modules_load(int gpu)
{
    if (module_inside)
        return;
    pthread_mutex_lock(&lock);
    for (struct mt_module *m; (m = modules_due());) {
        pthread_mutex_unlock(&lock);
        module_read(m);
        pthread_mutex_lock(&lock);
        if (m->state == MT_MODULE_READ)
            module_load(m, gpu);
    }
    pthread_mutex_unlock(&lock);
}

/* Loads all registered modules that are not loaded yet. */
static void modules_need(void)
{
    if (modules_unloaded)
        modules_load(mt_device_is_gpu());
}

void mt_modules_to_gpu(void)
{
    to_gpu = 1;
    modules_load(1);
}

/* ---- images made on demand ---- */

/* Returns the entry of a kernel with its own image, or NULL. */
static const struct mt_made_kernel *module_later(const struct mt_module *m, const char *kernel)
{
    const struct mt_made_kernel *k = NULL;
    while (m->later && (k = mt_made_kernel_next(m->later, m->later_end, k)) &&
           strcmp(mt_made_kernel_name(k), kernel) != 0)
        ;
    return k;
}

/* Makes the image once, while others wait: the dynamic linker is not involved. */
static void module_ask(struct mt_made_image *i, pthread_mutex_t *one, struct mt_module *m,
                       const struct mt_made_kernel *kernel, const char *name,
                       struct mt_making *(*begin)(struct mt_made_image *i, struct mt_module *m,
                                                  const struct mt_made_kernel *kernel, const char *name))
{
    pthread_mutex_lock(one);
    if (i->state < MT_MADE_ASKED)
        i->code = made_ask(m, name, kernel, begin ? begin(i, m, kernel, name) : NULL);
    module_reach(&i->state, MT_MADE_ASKED);
    pthread_mutex_unlock(one);
}

/* Loads an image after it was made, and binds it under the lock of the modules. */
static void module_made(struct mt_made_image *i, struct mt_module *m, struct mt_function *f,
                        void (*bind)(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                                     const char *why))
{
    module_wait(&i->loading, &i->state, MT_MADE_SETTLED);
    i->loading++;
    if (i->state < MT_MADE_SETTLED && !module_inside) {
        const char *why = NULL;
        module_inside = 1;
        struct mt_image *image =
            made_load(i->code, f ? m->image : NULL, f ? module_later(m, f->name) : NULL, &why);
        module_inside = 0;
        pthread_mutex_lock(&lock);
        if (i->state < MT_MADE_SETTLED)
            bind(m, f, image, why);
        i->state = MT_MADE_SETTLED;
        pthread_mutex_unlock(&lock);
    }
    if (--i->loading == 0 && i->state == MT_MADE_SETTLED)
        made_free(atomic_exchange(&i->code, NULL));
}

static void module_bind_made(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                             const char *why)
{
    m->later = made_kernel_list(m->made.code, &m->later_end);
    module_bind(m, image, why);
}

/* Makes the module's image, if it came without one. */
static void module_need(struct mt_module *m)
{
    if (!m->foreign || m->made.state == MT_MADE_SETTLED)
        return;
    module_ask(&m->made, &making, m, NULL, made_name(m), NULL);
    module_made(&m->made, m, NULL, module_bind_made);
}

/* ---- kernels of large modules ---- */

/* Several are made at once, each once; a kernel's lock follows from its name. */
#define SLOTS 8
static pthread_mutex_t slots[SLOTS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
#define SLOT(n) MT_FORK_ENTRY(slot##n, &slots[n], MT_FORK_MUTEX, MT_FORK_MODULES)
SLOT(0);
SLOT(1);
SLOT(2);
SLOT(3);
SLOT(4);
SLOT(5);
SLOT(6);
SLOT(7);

static unsigned module_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static pthread_mutex_t *module_slot(const char *name)
{
    unsigned hash = 0, n = module_processors();
    for (; *name; name++)
        hash = hash * 31 + (unsigned char)*name;
    return &slots[hash % (n < 1 ? 1 : n < SLOTS ? n : SLOTS)];
}

static void module_bind_kernel(struct mt_module *m, struct mt_function *f, struct mt_image *image,
                               const char *why)
{
    f->image = image;
    f->kernel = image ? mt_image_find_kernel(image, f->name) : NULL;
    f->why = why;
    if (image)
        mt_event_sites(image->head, image->site_base);
}

/* Returns its name in messages: "KERNEL of FILE". */
static char *module_name_kernel(const struct mt_module *m, const struct mt_function *f)
{
    char *name = NULL, *pretty = (mt_demangle_prepare(), mt_demangle(f->name));
    if (asprintf(&name, "%s of %s", pretty ? pretty : f->name, made_name(m)) < 0)
        name = NULL;
    free(pretty);
    return name;
}

/* ---- ahead of time: while one kernel is made, other processors make the following ones of the module. After
 * a few unused ones, no more are begun. ---- */

static pthread_mutex_t ahead = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(ahead, MT_FORK_TRACES); /* taken under a slot's lock */
static unsigned unclaimed;

static struct mt_function *module_function(struct mt_module *m, const char *name)
{
    pthread_mutex_lock(&lock);
    struct mt_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    pthread_mutex_unlock(&lock);
    return f;
}

/* Returns the number of idle processors besides those of `ours`, images in progress. The system's load is
 * counted without this thread and at most two processes per image. */
static unsigned module_idle(unsigned ours)
{
    char text[64];
    unsigned all = module_processors(), running = 0;
    int fd = mt_fd_up(open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%*s %*s %*s %u/", &running) != 1)
        running = 0;
    unsigned busy = ours + (running > 1 + 2 * ours ? running - 1 - 2 * ours : 0);
    return busy < all ? all - busy : 0;
}

static void module_ahead(struct mt_module *m, const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    unsigned ours = 1 + unclaimed;
    pthread_mutex_unlock(&ahead);
    unsigned more = mt_options()->ahead ? (unsigned)mt_options()->ahead - 1 : module_idle(ours);
    more = more < AHEAD_MOST ? more : AHEAD_MOST;
    const unsigned most = more ? more + WRONG_MOST : 0;
    for (; more && (kernel = mt_made_kernel_next(m->later, m->later_end, kernel)); more--) {
        struct mt_function *f = module_function(m, mt_made_kernel_name(kernel));
        pthread_mutex_lock(&ahead);
        if (f && f->made.state == MT_MADE_UNASKED && unclaimed < most &&
            (f->made.begun = made_begin(m, what, kernel))) {
            f->made.state = MT_MADE_BEGUN;
            unclaimed++;
        }
        pthread_mutex_unlock(&ahead);
    }
}

/* Takes the work begun for an image, which is then no longer begun ahead of time. Under `ahead`. */
static struct mt_making *module_claim(struct mt_made_image *i)
{
    struct mt_making *begun = i->begun;
    i->begun = NULL;
    unclaimed -= begun != NULL;
    module_reach(&i->state, MT_MADE_CLAIMED);
    return begun;
}

static struct mt_making *module_begin(struct mt_made_image *i, struct mt_module *m,
                                      const struct mt_made_kernel *kernel, const char *what)
{
    pthread_mutex_lock(&ahead);
    struct mt_making *begun = module_claim(i);
    pthread_mutex_unlock(&ahead);
    if (!begun)
        begun = made_begin(m, what, kernel);
    if (begun && !begun->kept)
        module_ahead(m, kernel, what);
    return begun;
}

/* Stops the work begun ahead of time for it. */
static void module_drop_begun(struct mt_module *m)
{
    pthread_mutex_lock(&ahead);
    for (struct mt_function *f = m->functions; f; f = f->next) {
        struct mt_making *begun = module_claim(&f->made);
        if (begun)
            making_drop(begun);
    }
    pthread_mutex_unlock(&ahead);
}

/* Makes the kernel's own image, if it has one. */
static void function_need(struct mt_function *f)
{
    struct mt_module *m = f->module;
    if (!m->later || f->made.state == MT_MADE_SETTLED || !m->image)
        return;
    const struct mt_made_kernel *kernel = module_later(m, f->name);
    if (!kernel) {
        f->made.state = MT_MADE_SETTLED;
        return;
    }
    char *name = module_name_kernel(m, f);
    module_ask(&f->made, module_slot(f->name), m, kernel, name ? name : f->name, module_begin);
    free(name);
    module_made(&f->made, m, f, module_bind_kernel);
}

/* ---- lookup ---- */

/* Returns 1 for a static or unnamed-namespace function: the same name in other files means another function.
 */
static int module_is_internal(const char *name)
{
    const char *at = name + 2 + (strncmp(name, "_ZN", 3) == 0);
    if (strncmp(name, "_Z", 2) != 0)
        return 0;
    while (isdigit((unsigned char)*at)) { /* names of the enclosing scopes */
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        at = n <= strlen(end) ? end + n : "";
    }
    return (*at == 'L' && isdigit((unsigned char)at[1])) || strstr(name, "_GLOBAL__N_");
}

static int module_is_same(const struct mt_function *a, const struct mt_function *b)
{
    return !strcmp(a->name, b->name) && (a->module == b->module || !module_is_internal(a->name));
}

/* Returns whether two different kernels share an address, so that a launch is ambiguous. The same kernel may
 * come from several files (templates). */
static int module_is_folded(struct mt_function *f, const void *host)
{
    struct mt_function *other = host == f->host ? f->before : NULL;
    while (other && module_is_same(f, other))
        other = other->before;
    if (!other || atomic_exchange(&f->told_folded, 1))
        return other != NULL;
    mt_demangle_prepare();
    char *a = mt_demangle(other->name), *b = mt_demangle(f->name);
    mt_report("kernels %s and %s have one address, so neither can be launched: the linker folded their "
              "host stubs; link without --icf=all (--icf=safe keeps them apart), or compile with mt-cc",
              mt_short(a ? a : other->name).text, mt_short(b ? b : f->name).text);
    free(a);
    free(b);
    return 1;
}

int mt_function_is_folded(const void *host)
{
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    return f && module_is_folded(f, host);
}

struct mt_function *mt_function_find(const void *host)
{
    modules_need();
    struct mt_function *f = host ? mt_map_get(&functions, host) : NULL;
    if (f && module_is_folded(f, host))
        return NULL;
    if (f) {
        module_need(f->module);
        function_need(f);
    }
    return f;
}

cudaKernel_t mt_function_handle(struct mt_function *f)
{
    return (cudaKernel_t)f;
}

void mt_function_alias(const void *alias, struct mt_function *f)
{
    mt_map_set(&functions, alias, f);
}

/* Returns the loaded variable whose host shadow is at `host`, or NULL. */
static struct mt_variable *variable_find(const void *host)
{
    modules_need();
    struct mt_variable *v = host ? mt_map_get(&variables, host) : NULL;
    if (v)
        module_need(v->module);
    return v;
}

/* Returns its address on the current device, or NULL. */
static void *module_variable_address(struct mt_variable *v)
{
    int device = mt_device_current();
    struct mt_image *i = device && v->address ? mt_module_image_on(v->module->image, device) : NULL;
    const struct mt_image_var *var = i ? mt_image_find_var(i, v->name) : NULL;
    return !device ? v->address : var ? image_var_address(var) : NULL;
}

void mt_modules_log_symbols(void)
{
    if (symbols_logged)
        return;
    int clean = mt_error_hold();
    mt_demangle_prepare();
    pthread_mutex_lock(&lock);
    for (struct mt_module *m = modules; m && !symbols_logged; m = m->next)
        for (struct mt_variable *v = m->variables; v; v = v->next) {
            void *p;
            const void *symbol = v->managed ? (const void *)v->managed : v->host;
            if (!MT_NEXT(cudaGetSymbolAddress)(&p, symbol))
                mt_event_alloc((uint64_t)(uintptr_t)p, v->size, "symbol", v->name, -1, NULL, -1);
        }
    symbols_logged = 1;
    pthread_mutex_unlock(&lock);
    mt_error_release(clean);
}

/* ---- registration, called by compiled code ---- */

void **rec___cudaRegisterFatBinary(void *wrapper)
{
    struct mt_module *m = calloc(1, sizeof *m);
    if (!m) {
        mt_report("out of memory: a fat binary is not registered");
        return NULL;
    }
    m->wrapper = wrapper;
    mt_registered = 1;
    pthread_mutex_lock(&lock);
    *modules_end = m;
    modules_end = &m->next;
    modules_unloaded++;
    pthread_mutex_unlock(&lock);
    return (void **)m;
}

void rec___cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_function *f = m ? calloc(1, sizeof *f) : NULL;
    if (!f || !(f->name = strdup(name)) || mt_map_set(&functions, f, f)) {
        mt_report("out of memory: kernel %s is not registered", mt_short(name).text);
        return;
    }
    f->host = host;
    f->device = device;
    f->thread_limit = thread_limit;
    f->module = m;
    f->dynamic_shared_max = f->carveout = -1;
    pthread_mutex_lock(&lock);
    f->before = mt_map_get(&functions, host);
    if (mt_map_set(&functions, host, f))
        mt_report("out of memory: kernel %s is not registered", mt_short(name).text);
    f->next = m->functions;
    m->functions = f;
    if (m->image)
        f->kernel = mt_image_find_kernel(m->image, f->name);
    f->image = m->image;
    pthread_mutex_unlock(&lock);
}

static struct mt_variable *variable_add(void **handle, const void *host, void **managed, char *device,
                                        const char *name, int ext, size_t size, int constant, int global)
{
    struct mt_module *m = (struct mt_module *)handle;
    struct mt_variable *v = m ? calloc(1, sizeof *v) : NULL;
    if (!v || !(v->name = strdup(name)) || mt_map_set(&variables, host, v)) {
        mt_report("out of memory: device variable %s is not registered", mt_short(name).text);
        return NULL;
    }
    v->host = host;
    v->managed = managed;
    v->device = device;
    v->ext = ext;
    v->size = size;
    v->constant = constant;
    v->global = global;
    v->module = m;
    pthread_mutex_lock(&lock);
    v->next = m->variables;
    m->variables = v;
    pthread_mutex_unlock(&lock);
    return v;
}

void rec___cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                           int constant, int global)
{
    variable_add(handle, host, NULL, device, name, ext, size, constant, global);
}

void rec___cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                  size_t size, int constant, int global)
{
    variable_add(handle, host, host, device, name, ext, size, constant, global);
}

/* Called by code of the pass to register such a variable. */
__attribute__((visibility("default"))) void __mt_register_managed(void **handle, void *host, const char *name,
                                                                  size_t size)
{
    struct mt_variable *v = variable_add(handle, host, NULL, NULL, name, 0, size, 0, 0);
    if (v)
        v->own = 1;
}

void rec___cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size)
{
    variable_add(handle, host, NULL, host, name, 0, size, 0, 1);
}

/* Texture and surface references do not exist since CUDA 12; their uses are reported at the calls. */
void rec___cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name,
                               int dim, int norm, int ext)
{
    mt_say("texture reference %s is not registered: texture references are not supported", name);
}

void rec___cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name,
                               int dim, int ext)
{
    mt_say("surface reference %s is not registered: surface references are not supported", name);
}

void rec___cudaRegisterFatBinaryEnd(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (!m)
        return;
    pthread_mutex_lock(&lock);
    module_reach(&m->state, MT_MODULE_ENDED);
    int load_now = to_gpu;
    pthread_mutex_unlock(&lock);
    if (load_now)
        modules_load(1);
    /* A __managed__ variable, or its pointer, must be valid before main. */
    if (variables_are_managed(m) && !mt_device_is_gpu())
        modules_need();
}

char rec___cudaInitModule(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (mt_device_is_gpu())
        return m && m->real ? MT_NEXT(__cudaInitModule)(m->real) : 0;
    modules_need();
    if (m)
        module_need(m);
    return 1;
}

/* Removes a library's copy of a kernel; its address stays valid for the program's copy, if any. */
static void module_forget_function(struct mt_function *f)
{
    struct mt_function *last = mt_map_get(&functions, f->host);
    mt_map_drop(&functions, f, f);
    if (last != f) {
        while (last && last->before != f)
            last = last->before;
        if (last)
            last->before = f->before;
    } else if (!f->before || mt_map_set(&functions, f->host, f->before)) {
        mt_map_drop(&functions, f->host, f);
    }
}

/* Forgets a library with its fat binary, kernels and variables: their addresses may be reused. Launched
 * kernels have all they need. */
static void module_forget(struct mt_module *m)
{
    module_drop_begun(m);
    pthread_mutex_lock(&lock);
    for (struct mt_module **at = &modules; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            modules_end = *at ? modules_end : at;
            break;
        }
    if (m->state < MT_MODULE_LOADED)
        modules_unloaded--;
    m->state = MT_MODULE_GONE;
    m->made.state = MT_MADE_SETTLED;
    for (struct mt_function *f = m->functions; f; f = f->next)
        module_forget_function(f);
    variables_forget(m);
    pthread_mutex_unlock(&lock);
}

void rec___cudaUnregisterFatBinary(void **handle)
{
    struct mt_module *m = (struct mt_module *)handle;
    if (m && m->real)
        MT_NEXT(__cudaUnregisterFatBinary)(m->real);
    if (!m)
        return;
    m->real = NULL;
    module_forget(m);
}

/* Returns whether the handle belongs to this runtime; with NULL: whether any does. Compiled code asks to find
 * out if NVIDIA's runtime was linked. */
__attribute__((visibility("default"))) int __mt_is_registered(void **handle)
{
    pthread_mutex_lock(&lock);
    struct mt_module *m = modules;
    while (m && handle && m != (struct mt_module *)handle)
        m = m->next;
    pthread_mutex_unlock(&lock);
    return m != NULL;
}

/* Referenced by each such file: mt-cc's device link has a definition of its own. */
__attribute__((visibility("default"))) const char __mt_device_linker = 0;

/* Returns the module of a shared object with unlinked files, or a new one. */
static struct mt_module *unlinked_module(const void *object)
{
    struct mt_module *m;
    pthread_mutex_lock(&lock);
    for (m = modules; m && !(m->fatbins && m->object == object && m->state < MT_MODULE_LOADED); m = m->next) {
    }
    pthread_mutex_unlock(&lock);
    return m ? m : (struct mt_module *)__cudaRegisterFatBinary(NULL);
}

/* Called by files with relocatable device code (-fgpu-rdc) in a program without a device link: the pass adds
 * a weak definition of the device linker's output that calls this. The images of such files are bound to one
 * another like those of linked ones. */
__attribute__((visibility("default"))) void __mt_register_linked_binary(void (*callback)(void **),
                                                                        const void *wrapper, const void *id,
                                                                        void (*unused)(void *))
{
    const struct {
        int magic, version;
        const void *fatbin;
    } *w = wrapper;
    Dl_info info = {0};
    dladdr(wrapper, &info);
    struct mt_module *m = unlinked_module(info.dli_fbase);
    const void **grown = m ? realloc(m->fatbins, (m->nfatbins + 1) * sizeof *grown) : NULL;
    if (!grown) {
        mt_report("out of memory: device code is not registered");
        return;
    }
    m->object = info.dli_fbase;
    m->fatbins = grown;
    m->fatbins[m->nfatbins++] = w->fatbin;
    callback((void **)m);
}

/* Called after all files of the calling program or library were registered. */
__attribute__((visibility("default"))) void __mt_linked_binaries_done(void)
{
    for (struct mt_module *m = modules; m; m = m->next)
        if (m->fatbins && m->state == MT_MODULE_OPEN)
            __cudaRegisterFatBinaryEnd((void **)m);
}

/* ---- variables as symbols, on the CPU device ---- */

/* Finds a variable; one whose file has no CPU image has no memory. */
static cudaError_t symbol_find(const void *symbol, struct mt_variable **v)
{
    *v = variable_find(symbol);
    if (!*v)
        return cudaErrorInvalidSymbol;
    if ((*v)->address)
        return cudaSuccess;
    if (!(*v)->module->image) {
        module_complain((*v)->module, (*v)->name);
        return cudaErrorNoKernelImageForDevice;
    }
    return cudaErrorInvalidSymbol;
}

cudaError_t impl_cudaGetSymbolAddress(void **out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e && !(*out = module_variable_address(v)))
        e = cudaErrorMemoryAllocation;
    return mt_fail(e);
}

cudaError_t impl_cudaGetSymbolSize(size_t *out, const void *symbol)
{
    struct mt_variable *v;
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = symbol_find(symbol, &v);
    if (!e)
        *out = v->size;
    return mt_fail(e);
}

/* ---- Libraries of device code loaded by the program itself, on the CPU device ---- */

/* Loaded libraries. */
struct library {
    struct mt_module module; /* first, so that a library is its module */
    struct library *next;
    const void *code[]; /* copies owned by the library */
};
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(library_lock, MT_FORK_MODULES);
static struct library *libraries;

int mt_library_is(const struct mt_module *m)
{
    pthread_mutex_lock(&library_lock);
    const struct library *l = libraries;
    while (l && &l->module != m)
        l = l->next;
    pthread_mutex_unlock(&library_lock);
    return l != NULL;
}

static void library_free(struct library *l)
{
    for (size_t i = 0; l && i < l->module.nfatbins; i++)
        free((void *)(uintptr_t)l->code[i]);
    free(l);
}

/* Copies the code, which may be freed after the call. */
static struct library *library_new(const struct mt_device_code *code, size_t n)
{
    struct library *l = calloc(1, sizeof *l + n * sizeof *l->code);
    if (!l)
        return NULL;
    l->module.fatbins = l->code;
    for (size_t i = 0; i < n; i++) {
        char *copy = malloc(code[i].bytes + 1);
        if (!copy) {
            library_free(l);
            return NULL;
        }
        memcpy(copy, code[i].data, code[i].bytes);
        copy[code[i].bytes] = '\0'; /* PTX ends with NUL */
        l->code[l->module.nfatbins++] = copy;
    }
    l->module.state = MT_MODULE_LOADED;
    l->module.made.state = MT_MADE_SETTLED;
    l->module.foreign = 1;
    return l;
}

/* A kernel is known by the address of its row, as a registered one by that of its host stub. */
static void library_list_kernels(struct mt_module *m)
{
    for (const struct mt_image *i = m->image; i; i = i->peer)
        for (uint32_t k = 0; k < i->head->nkernels; k++) {
            const struct mt_image_kernel *kernel = &((const struct mt_image_kernel *)i->head->kernels)[k];
            __cudaRegisterFunction((void **)m, (const char *)kernel, NULL, kernel->name, -1, NULL, NULL, NULL,
                                   NULL, NULL);
        }
    for (const struct mt_made_kernel *k = NULL;
         m->later && (k = mt_made_kernel_next(m->later, m->later_end, k));)
        __cudaRegisterFunction((void **)m, mt_made_kernel_name(k), NULL, mt_made_kernel_name(k), -1, NULL,
                               NULL, NULL, NULL, NULL);
}

static enum mt_library_error library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                          char **why)
{
    const char *said = NULL;
    int text = 0;
    for (size_t i = 0; i < n; i++) {
        if (!code[i].bytes)
            return MT_LIBRARY_IMAGE;
        text |= memcmp(code[i].data, "\x50\xed\x55\xba", code[i].bytes < 4 ? code[i].bytes : 4) &&
                memcmp(code[i].data, "\177ELF", code[i].bytes < 4 ? code[i].bytes : 4);
    }
    struct library *l = library_new(code, n);
    if (!l)
        return MT_LIBRARY_MEMORY;
    struct mt_module *m = &l->module;
    struct mt_made_code *made =
        mt_image_carried(m->fatbins, n) ? NULL : made_ask(m, made_name(m), NULL, NULL);
    struct mt_image *image =
        made ? made_load(made, NULL, NULL, &said) : mt_image_load_all(m->fatbins, n, NULL, &said);
    m->later = made_kernel_list(made, &m->later_end);
    made_free(made);
    if (!image) {
        mt_report("device code that the program loads cannot run on the CPU device: %s",
                  said ? said : "no memory");
        *why = said ? strdup(said) : NULL;
        library_free(l);
        return text ? MT_LIBRARY_PTX : MT_LIBRARY_NO_BINARY;
    }
    module_bind(m, image, NULL);
    library_list_kernels(m);
    pthread_mutex_lock(&library_lock);
    l->next = libraries;
    libraries = l;
    pthread_mutex_unlock(&library_lock);
    *out = m;
    return MT_LIBRARY_OK;
}

/* Splits linked code into its fatbins. Returns 0 if it is damaged or out of memory. */
static size_t library_unlink(const struct mt_device_code *linked, struct mt_device_code **out)
{
    const char *begin = linked->data;
    size_t n = 0, at = sizeof(struct mt_linked_code);
    while (at + 16 < linked->bytes) {
        struct mt_device_code *grown = realloc(*out, (n + 1) * sizeof *grown);
        size_t bytes = mt_device_code_bytes(begin + at);
        if (!grown || bytes < 16 || bytes > linked->bytes - at)
            return 0;
        *out = grown;
        grown[n++] = (struct mt_device_code){begin + at, bytes};
        at = (at + bytes + 7) & ~(size_t)7;
    }
    return n;
}

enum mt_library_error mt_library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                      char **why)
{
    struct mt_device_code *parts = NULL;
    *why = NULL;
    if (n != 1 || code->bytes < sizeof(struct mt_linked_code) || strncmp(code->data, MT_LINKED_MAGIC, 8))
        return library_load(out, code, n, why);
    size_t nparts = library_unlink(code, &parts);
    enum mt_library_error e = nparts ? library_load(out, parts, nparts, why) : MT_LIBRARY_IMAGE;
    free(parts);
    return e;
}

/* The structure is kept: launched kernels refer to it. */
void mt_library_unload(struct mt_module *m)
{
    pthread_mutex_lock(&library_lock);
    struct library **at = &libraries;
    while (*at && &(*at)->module != m)
        at = &(*at)->next;
    int found = *at != NULL;
    if (found)
        *at = (*at)->next;
    pthread_mutex_unlock(&library_lock);
    if (!found)
        return;
    module_forget(m);
    for (size_t i = 0; i < m->nfatbins; i++)
        free((void *)(uintptr_t)m->fatbins[i]);
    m->nfatbins = 0;
}

struct mt_function *mt_library_kernel(struct mt_module *m, const char *name)
{
    struct mt_function *f = m->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

int mt_library_variable(struct mt_module *m, const char *name, void **address, size_t *bytes)
{
    struct mt_image *on = mt_module_image_on(m->image, mt_device_current());
    const struct mt_image_var *v = on ? mt_image_find_var(on, name) : NULL;
    if (!v)
        return 0;
    if (address)
        *address = (void *)(uintptr_t)v->address;
    if (bytes)
        *bytes = v->size;
    return 1;
}

/* Returns the number of kernels, and stores up to `room` of them. */
static unsigned library_kernels(struct mt_module *m, struct mt_function **out, unsigned room)
{
    unsigned n = 0;
    for (struct mt_function *f = m->functions; f; f = f->next, n++)
        if (n < room)
            out[n] = f;
    return n;
}

void *mt_library_file(const char *path, size_t *bytes)
{
    struct stat st;
    char *data = NULL;
    size_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !(data = malloc((size_t)st.st_size + 1)))
        goto out;
    while (at < (size_t)st.st_size) {
        ssize_t got = read(fd, data + at, (size_t)st.st_size - at);
        if (got <= 0)
            break;
        at += (size_t)got;
    }
    data[at] = '\0';
    *bytes = at;
out:
    if (fd >= 0)
        close(fd);
    return data;
}

/* ---- functions of the runtime API ---- */

#if CUDART_VERSION >= 12080
static cudaError_t library_result(enum mt_library_error e)
{
    static const cudaError_t errors[] = {cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInvalidKernelImage,
                                         cudaErrorInvalidPtx, cudaErrorNoKernelImageForDevice};
    return e ? mt_fail(errors[e]) : cudaSuccess;
}

cudaError_t impl_cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
                                     void **values, unsigned njit, enum cudaLibraryOption *options,
                                     void **option_values, unsigned n)
{
    struct mt_module *m;
    char *why = NULL;
    if (!library || !code)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = library_result(
        mt_library_load(&m, &(struct mt_device_code){code, mt_device_code_bytes(code)}, 1, &why));
    free(why);
    if (!e)
        *library = (cudaLibrary_t)m;
    return e;
}

cudaError_t impl_cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *jit,
                                         void **values, unsigned njit, enum cudaLibraryOption *options,
                                         void **option_values, unsigned n)
{
    struct mt_module *m;
    char *why = NULL;
    size_t bytes = 0;
    if (!library || !path)
        return mt_fail(cudaErrorInvalidValue);
    void *data = mt_library_file(path, &bytes);
    if (!data)
        return mt_fail(errno == ENOENT ? cudaErrorFileNotFound : cudaErrorInvalidKernelImage);
    cudaError_t e = library_result(mt_library_load(&m, &(struct mt_device_code){data, bytes}, 1, &why));
    free(why);
    free(data);
    if (!e)
        *library = (cudaLibrary_t)m;
    return e;
}

cudaError_t impl_cudaLibraryUnload(cudaLibrary_t library)
{
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = cudaDeviceSynchronize();
    mt_library_unload((struct mt_module *)library);
    return e;
}

cudaError_t impl_cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    if (!kernel || !name)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    struct mt_function *f = mt_library_kernel((struct mt_module *)library, name);
    if (!f)
        return mt_fail(cudaErrorSymbolNotFound);
    *kernel = mt_function_handle(f);
    return cudaSuccess;
}

static cudaError_t library_global(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    if (!name || (!address && !bytes))
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    return mt_library_variable((struct mt_module *)library, name, address, bytes)
               ? cudaSuccess
               : mt_fail(cudaErrorSymbolNotFound);
}

cudaError_t impl_cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return library_global(address, bytes, library, name);
}

cudaError_t impl_cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return library_global(address, bytes, library, name);
}

cudaError_t impl_cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *symbol)
{
    return mt_fail(cudaErrorSymbolNotFound);
}

cudaError_t impl_cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    if (!count)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    *count = library_kernels((struct mt_module *)library, NULL, 0);
    return cudaSuccess;
}

cudaError_t impl_cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned room, cudaLibrary_t library)
{
    if (!kernels || !room)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_library_is((struct mt_module *)library))
        return mt_fail(cudaErrorInvalidResourceHandle);
    library_kernels((struct mt_module *)library, (struct mt_function **)kernels, room);
    return cudaSuccess;
}

cudaError_t impl_cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute a, int value,
                                                 int device)
{
    return device != 0 ? mt_fail(cudaErrorInvalidDevice) : cudaFuncSetAttribute(kernel, a, value);
}
#endif
