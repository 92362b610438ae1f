/* Which inputs hold relocatable device code, and for which architectures: read from the files themselves. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "format/image.h"
#include "device_link.h"

#define SECTION "__nv_relfatbin" /* of host objects; archives hold the objects as they are */
#define LINKED                                                                                               \
    "def __nv_" /* of what a device link made: names the files that it linked, for nvlink to leave out */
#define KIND_ELF 2

/* As CUDA 8 to 13 write them: a header, then entries. */
struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};
struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size;
    uint32_t unknown[3], arch;
};

/* Adds the architectures of the fatbin at `at` to `found`; how many entries it had. */
static int read_fatbin(const unsigned char *at, const unsigned char *end, unsigned char *found)
{
    struct fatbin_header h;
    struct fatbin_entry e;
    int n = 0;
    memcpy(&h, at, sizeof h);
    if (h.version != 1 || h.header_size < sizeof h || h.size > (uint64_t)(end - at) - sizeof h) {
        return 0;
    }
    const unsigned char *last = at + h.header_size + h.size;
    for (at += h.header_size; at + sizeof e <= last; at += e.header_size + e.size) {
        memcpy(&e, at, sizeof e);
        if (e.header_size < sizeof e || e.size > (uint64_t)(last - at)) {
            break;
        }
        if (e.kind == KIND_ELF && e.arch < MT_ARCHS) {
            found[e.arch] = 1;
        }
        n += e.kind != MT_CARRIER_KIND; /* what we appended */
    }
    return n;
}

/* Searches a file that is mapped at [data, end). */
static int device_code_scan(const unsigned char *data, const unsigned char *end, struct device_code *code)
{
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    if (!memmem(data, (size_t)(end - data), SECTION, sizeof SECTION - 1)) {
        return memmem(data, (size_t)(end - data), LINKED, sizeof LINKED - 1) != NULL;
    }
    const unsigned char *at = data;
    while ((at = memmem(at, (size_t)(end - at), magic, sizeof magic)) &&
           (size_t)(end - at) >= sizeof(struct fatbin_header)) {
        unsigned char found[MT_ARCHS] = {0};
        if (read_fatbin(at, end, found) > 0) {
            for (int i = 0; i < MT_ARCHS; i++) {
                code->arch[i] = found[i] && (code->fatbins == 0 || code->arch[i]);
            }
            code->fatbins++;
        }
        at += sizeof magic;
    }
    return 1;
}

/* device_code.c: 1 if an object or archive holds relocatable device code,
 * or registers what was linked before. */
static int cc_device_code_in(const char *path, struct device_code *code)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    if (fd < 0) {
        return 0;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        unsigned char *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            found = device_code_scan(data, data + st.st_size, code);
            munmap(data, (size_t)st.st_size);
        }
    }
    close(fd);
    return found;
}

/* The archive that -lNAME means, or NULL: none, or a shared library is found first. */
static char *find_library(const struct words *folders, const char *name)
{
    for (size_t i = 0; i < folders->count; i++) {
        if (name[0] == ':') {
            char *file = mt_words_text("%s/%s", folders->word[i], name + 1);
            if (access(file, R_OK) == 0) {
                return file;
            }
            continue;
        }
        if (access(mt_words_text("%s/lib%s.so", folders->word[i], name), R_OK) == 0) {
            return NULL;
        }
        char *file = mt_words_text("%s/lib%s.a", folders->word[i], name);
        if (access(file, R_OK) == 0) {
            return file;
        }
    }
    return NULL;
}

static void add_if_device_code(struct words *out, const char *file, struct device_code *code)
{
    size_t n = strlen(file);
    int usual =
        n > 2 && (strcmp(file + n - 2, ".o") == 0 || strcmp(file + n - 2, ".a") == 0 ||
                  (n > 4 && (strcmp(file + n - 4, ".obj") == 0 || strcmp(file + n - 4, ".lib") == 0)));
    if ((usual || access(file, R_OK) == 0) && cc_device_code_in(file, code)) {
        mt_words_add(out, file);
    }
}

/* -Wl,a,b,c and the value of -Xlinker: files among them. */
static void add_listed(struct words *out, const char *list, struct device_code *code)
{
    char *copy = mt_words_text("%s", list), *save = NULL;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (item[0] != '-') {
            add_if_device_code(out, item, code);
        }
    }
    free(copy);
}

struct words mt_cc_device_code_inputs(const struct words *line, struct device_code *code)
{
    struct words out = {0}, folders = {0};
    for (size_t i = 0; i < line->count; i++) {
        const char *w = line->word[i];
        if (strncmp(w, "-L", 2) == 0 && (w[2] || i + 1 < line->count)) {
            mt_words_add(&folders, w[2] ? w + 2 : line->word[i + 1]);
        }
    }
    for (size_t i = 0; i < line->count; i++) {
        const char *w = line->word[i];
        int two = i + 1 < line->count && !w[0] == 0 && !w[2];
        if (strncmp(w, "-l", 2) == 0 && (w[2] || two)) {
            char *file = find_library(&folders, w[2] ? w + 2 : line->word[++i]);
            if (file) {
                add_if_device_code(&out, file, code);
            }
        } else if (strncmp(w, "-Wl,", 4) == 0) {
            add_listed(&out, w + 4, code);
        } else if (strcmp(w, "-Xlinker") == 0 && i + 1 < line->count) {
            add_listed(&out, line->word[++i], code);
        } else if (strcmp(w, "-o") == 0) {
            i++;
        } else if (w[0] != '-') {
            add_if_device_code(&out, w, code);
        }
    }
    return out;
}
