/* CPU images of device code that came without one: made by mt-ptx, then loaded. */
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
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORDS 64
#define TELL_S 2 /* on a terminal: shows the time taken from this many seconds on */
#define SAY_S 10 /* elsewhere: reports the wait once, after this many seconds */
#define LOOK_MS 250

struct mt_made {
    void *block;        /* freed by the caller when the image is loaded */
    const void *fatbin; /* followed by the image: for mt_image_load_all */
    const char *words;  /* messages of mt-ptx, lines without a prefix; not terminated by NUL */
    size_t nwords;
    const struct mt_made_text *texts; /* `ntexts` bytes of them */
    size_t ntexts;
    int kept; /* came from the cache */
};

struct to_make {
    const struct mt_device_code *code; /* fatbins that belong together (-rdc), or one piece of any kind */
    size_t n;
    const char *what;   /* name in messages */
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

struct work {
    const char *what;                  /* name in messages */
    int input, output, words, line[2]; /* memory files; and a socket over which mt-ptx reports its progress,
                                          and each side notices the other's end */
    pid_t pid;
    int done; /* mt-ptx reported its end */
    char stage[64];
};

static int make_file(const char *name)
{
    return mt_fd_up(memfd_create(name, MFD_CLOEXEC));
}

/* Writes the inputs one after the other, each at a multiple of 8. */
static int make_put_input(struct work *w, const struct to_make *m)
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

static int make_open(struct work *w, const struct to_make *m)
{
    w->input = make_file("memtrace-device-code");
    w->output = make_file("memtrace-image");
    w->words = make_file("memtrace-words");
    if (w->input < 0 || w->output < 0 || w->words < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->line))
        return -1;
    w->line[0] = mt_fd_up(w->line[0]);
    w->line[1] = mt_fd_up(w->line[1]);
    return make_put_input(w, m);
}

static void make_close(struct work *w)
{
    int fd[] = {w->input, w->output, w->words, w->line[0], w->line[1]};
    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

static int make_start(struct work *w, const struct to_make *m, const char *key, const char *folder, char *why,
                      size_t size)
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
static int make_listen(struct work *w)
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
static void make_tell(const struct work *w, unsigned seconds, int *said)
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

static void make_wait(struct work *w)
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
static void make_why(const struct work *w, char *why, size_t size)
{
    char text[1024];
    ssize_t n = pread(w->words, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    for (char *p = text; *p; p++)
        *p = *p == '\n' ? p[1] ? ';' : 0 : *p;
    snprintf(why, size, "%s",
             *text ? text : "mt-ptx ended without a word, as what is killed: out of memory?");
}

/* Runs mt-ptx, or sets *why. */
static int make_by_tool(struct work *w, const struct to_make *m, const char *key, const char *folder,
                        char *why, size_t size)
{
    int rc = make_open(w, m);
    if (rc)
        snprintf(why, size, "no memory for its device code: %s", strerror(errno));
    else
        rc = make_start(w, m, key, folder, why, size);
    return rc;
}

static int make_by_tool_end(struct work *w, struct mt_cache_entry *e, char *why, size_t size)
{
    make_wait(w);
    int rc = w->done ? mt_cache_read(w->output, e) : -1;
    if (rc)
        make_why(w, why, size);
    return rc;
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
static int make_take(const struct mt_cache_entry *e, struct mt_made *out)
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
static const struct mt_made_text *made_next(const struct mt_made *made, const struct mt_made_text *last)
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

struct mt_making {
    struct work work;
    struct mt_cache_entry entry;
    int kept; /* came from the cache */
    pid_t owner;
};

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
    return w->kept ? 0 : make_by_tool(&w->work, m, keys, path, why, size);
}

static struct mt_making *making_begin(const struct to_make *m, char *why, size_t size)
{
    int saved = errno;
    struct mt_making *w = malloc(sizeof *w);
    if (!w) {
        snprintf(why, size, "no memory");
        return NULL;
    }
    *w = (struct mt_making){
        .owner = getpid(),
        .work = {
            .what = m->what, .input = -1, .output = -1, .words = -1, .line = {-1, -1}, .stage = "starting"}};
    if (make_find_or_begin(w, m, why, size)) {
        mt_making_drop(w);
        w = NULL;
    }
    errno = saved;
    return w;
}

static int making_here(const struct mt_making *w)
{
    return w->owner == getpid();
}

int mt_making_kept(const struct mt_making *w)
{
    return w->kept;
}

void mt_making_drop(struct mt_making *w)
{
    make_close(&w->work);
    free(w->entry.block);
    free(w);
}

/* Waits for the image as `what`, reporting a long wait, and frees w. Returns 0, or -1 with *why set. */
static int making_end(struct mt_making *w, const char *what, struct mt_made *out, char *why, size_t size)
{
    int saved = errno;
    *out = (struct mt_made){.kept = w->kept};
    w->work.what = what;
    int rc = w->kept ? 0 : make_by_tool_end(&w->work, &w->entry, why, size);
    if (!rc && (rc = make_take(&w->entry, out)))
        snprintf(why, size, "what mt-ptx has made of it is damaged");
    if (!rc)
        w->entry.block = NULL; /* now owned by the caller */
    mt_making_drop(w);
    errno = saved;
    return rc;
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

struct mt_made_code {
    struct mt_made made;
    char *name;
    char why[2048]; /* "": success */
};

const char *mt_made_name(const struct mt_module *m)
{
    Dl_info info;
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    const char *name = n && dladdr(fatbins[0], &info) && info.dli_fname ? info.dli_fname
                                                                        : "code loaded at run time",
               *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void made_tell(const char *what, const struct mt_made *made)
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

static struct mt_making *made_begin(const struct mt_module *m, const char *name,
                                    const struct mt_made_kernel *kernel, char *why, size_t size)
{
    size_t n;
    const void *const *fatbins = mt_module_fatbins(m, &n);
    struct mt_device_code *code = calloc(n ? n : 1, sizeof *code);
    for (size_t i = 0; code && i < n; i++)
        code[i] = (struct mt_device_code){fatbins[i], mt_device_code_bytes(fatbins[i])};
    const struct to_make make = {code, n, name, kernel ? mt_made_kernel_name(kernel) : NULL,
                                 kernel ? kernel->content : NULL};
    struct mt_making *w = code && n ? making_begin(&make, why, size) : NULL;
    free(code);
    return w;
}

struct mt_making *mt_made_begin(const struct mt_module *m, const char *name,
                                const struct mt_made_kernel *kernel)
{
    char why[64]; /* reported once it is really needed */
    return made_begin(m, name, kernel, why, sizeof why);
}

struct mt_made_code *mt_made_ask(const struct mt_module *m, const char *name,
                                 const struct mt_made_kernel *kernel, struct mt_making *begun)
{
    struct mt_made_code *c = calloc(1, sizeof *c);
    if (begun && (!c || !making_here(begun))) {
        mt_making_drop(begun);
        begun = NULL;
    }
    if (!c)
        return NULL;
    strcpy(c->why, "no memory");
    c->name = strdup(name);
    if (!begun)
        begun = made_begin(m, name, kernel, c->why, sizeof c->why);
    if (begun && making_end(begun, name, &c->made, c->why, sizeof c->why) == 0)
        *c->why = 0;
    for (const struct mt_made_text *t = NULL; !*c->why && mt_tracing() && (t = made_next(&c->made, t));)
        if (*t->name)
            mt_source_keep(t->name, t + 1, t->bytes);
    return c;
}

static const struct mt_made_text *made_kernels(const struct mt_made_code *c)
{
    const struct mt_made_text *t = NULL;
    while (!*c->why && (t = made_next(&c->made, t)) && *t->name)
        ;
    return *c->why ? NULL : t;
}

void *mt_made_kernels(const struct mt_made_code *c, size_t *bytes)
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

struct mt_image *mt_made_load(struct mt_made_code *c, struct mt_image *base,
                              const struct mt_made_kernel *kernel, const char **why)
{
    const char *bad = NULL;
    struct mt_image *image = c && !*c->why ? mt_image_load_all(&c->made.fatbin, 1, base, &bad) : NULL;
    if (image && kernel)
        made_move(c, image, kernel);
    if (c && !*c->why)
        made_tell(c->name ? c->name : "device code", &c->made);
    *why = image ? NULL : strdup(bad ? bad : c ? c->why : "no memory");
    return image;
}

void mt_made_free(struct mt_made_code *c)
{
    if (c) {
        free(c->made.block);
        free(c->name);
    }
    free(c);
}
