/* The wrappers of NVIDIA's ptxas and fatbinary. They move the CPU image from the PTX, where the compiler pass
 * leaves it as a comment line, to the place after the fatbin where the runtime looks for it (format/image.h).
 * There are two steps, since clang runs two programs and may not give the PTX to the second one:
 *
 *   ptxas      removes the line, assembles the rest, and appends the decoded object to the cubin
 *   fatbinary  removes line or object from its inputs, links the object, and appends the payload to the
 * fatbin
 *
 * Exit codes are those of the real tools; 1 if the wrapper itself fails. Messages are "memtrace: ptxas: …" on
 * stderr. On a signal temporary files are removed, the child is ended, and the signal takes its default
 * action. */
#include "process.h"
#include "base/part.h"
#include "format/image.h"
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tool {
    const char *name; /* name of the tool, "ptxas" or "fatbinary" */
    char *real;       /* path of the real tool */
    unsigned cuda;    /* CUDA_VERSION of the toolkit, for example 13000 */
};

/* ---- The overlay around this executable: bin/.memtrace-overlay (key=value lines) and bin/real/ ---- */

/* Returns the toolkit's version from the overlay's marker file, or 0 if it has none. */
static unsigned marker_version(const char *path)
{
    char line[PATH_MAX + 16];
    unsigned version = 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        return 0;
    }
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "version=%u", &version);
    }
    fclose(f);
    return version;
}

/* Fills `tool` from the overlay that contains this executable, and sets mt_cli_name. Returns 0, or 1 after a
 * message. */
static int cudabin_tool_find(struct tool *tool)
{
    static char self[PATH_MAX], name[32];
    char path[PATH_MAX + 32];
    /* Uses the executable's own place, not argv[0], so that links and PATH work, too. */
    char *slash = mt_files_self(self, 0) == 0 ? strrchr(self, '/') : NULL;
    mt_cli_name = "memtrace";
    if (!slash) {
        return mt_cli_fail("cannot read /proc/self/exe");
    }
    *slash = 0;
    tool->name = slash + 1;
    if (strcmp(tool->name, "ptxas") != 0 && strcmp(tool->name, "fatbinary") != 0) {
        return mt_cli_fail("%s works as bin/ptxas and bin/fatbinary of a directory made by mt-overlay",
                           tool->name);
    }
    snprintf(name, sizeof name, "memtrace: %s", tool->name);
    mt_cli_name = name;
    snprintf(path, sizeof path, "%s/.memtrace-overlay", self);
    tool->cuda = marker_version(path);
    if (tool->cuda == 0) {
        return mt_cli_fail("%s is missing or damaged: make the overlay again with mt-overlay", path);
    }
    snprintf(path, sizeof path, "%s/real/%s", self, tool->name);
    tool->real = realpath(path, NULL);
    if (!tool->real) {
        return mt_cli_fail("the CUDA toolkit's %s is gone (%s: %s): make the overlay again with mt-overlay",
                           tool->name, path, strerror(errno));
    }
    return 0;
}

/* ---- PTX directives that the compiler cannot write ---- */

/* Returns the end of the kernel's parameters, or NULL. The text is NUL-terminated. */
static char *parameters_end(char *text, const char *name)
{
    static const char entry[] = ".entry ";
    size_t length = strlen(name);
    for (char *at = text; (at = strstr(at, entry));) {
        at += sizeof entry - 1;
        at += strspn(at, " \t");
        if (strncmp(at, name, length) == 0 && at[length] == '(') {
            char *end = strchr(at, ')');
            return end ? end + 1 : NULL;
        }
    }
    return NULL;
}

/* Inserts `words` at `at`, a place in the text. */
static int ptx_insert(struct bytes *contents, char *at, const char *words)
{
    size_t offset = (size_t)(at - (char *)contents->data), length = strlen(words);
    unsigned char *grown = realloc(contents->data, contents->size + length + 1);
    if (!grown) {
        return -1;
    }
    memmove(grown + offset + length, grown + offset, contents->size + 1 - offset);
    memcpy(grown + offset, words, length);
    contents->data = grown;
    contents->size += length;
    return 0;
}

/* Handles a marker line: adds the directives to its kernel and removes the line's text, but not its end. */
static int put_cluster(struct bytes *contents, char *line, const char **why)
{
    char name[4096], words[128];
    unsigned x, y, z;
    char *end = line + strcspn(line, "\r\n");
    if (sscanf(line + sizeof MT_PTX_CLUSTER - 1, "%4095s %u %u %u", name, &x, &y, &z) != 4) {
        *why = "a cluster's size in the PTX is damaged";
        return -1;
    }
    contents->size -= (size_t)(end - line);
    memmove(line, end, contents->size + 1 - (size_t)(line - (char *)contents->data));
    char *at = parameters_end((char *)contents->data, name);
    if (!at) {
        *why = "a kernel with a cluster's size is not in the PTX";
        return -1;
    }
    snprintf(words, sizeof words, " .explicitcluster .reqnctapercluster %u, %u, %u", x, y, z);
    if (ptx_insert(contents, at, words) != 0) {
        *why = "out of memory";
        return -1;
    }
    return 0;
}

/* Adds the directives of kernels with __cluster_dims__. Returns 0, or -1 with *why. */
static int image_put_clusters(struct bytes *contents, const char **why)
{
    if (!memmem(contents->data, contents->size, MT_PTX_CLUSTER, sizeof MT_PTX_CLUSTER - 1)) {
        return 0;
    }
    unsigned char *text = realloc(contents->data, contents->size + 1);
    if (!text) {
        *why = "out of memory";
        return -1;
    }
    text[contents->size] = 0;
    contents->data = text;
    for (size_t at = 0;;) {
        char *line = strstr((char *)contents->data + at, MT_PTX_CLUSTER);
        if (!line) {
            return 0;
        }
        at = (size_t)(line - (char *)contents->data);
        if (at > 0 && line[-1] != '\n') { /* within another line, so it is no marker */
            at++;
        } else if (put_cluster(contents, line, why) != 0) {
            return -1;
        } else {
            at = 0; /* the insertion moved the text */
        }
    }
}

/* ---- The CPU image in a PTX file or after a cubin ----
 *
 * PTX: a line MT_PTX_PREFIX + base64 of the object; inline-asm marks of the compiler around it stay.
 * cubin: …, object, trailer. The trailer is at the end, so it is found without parsing the cubin. */

#define TRAILER_MAGIC "MTCPUOB1"
struct trailer {
    uint64_t size; /* bytes of the object before the trailer */
    char magic[8];
};
_Static_assert(sizeof(struct trailer) == 16, "trailer is 16 bytes on disk");

/* Returns the value of a base64 digit, or -1. */
static int image_digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes text[0, size). Returns 0, or -1 if it is not base64 (RFC 4648, padding optional). */
static int image_decode(const unsigned char *text, size_t size, struct bytes *out)
{
    while (size > 0 && (text[size - 1] == '\r' || text[size - 1] == ' ')) {
        size--;
    }
    for (int pad = 0; pad < 2 && size > 0 && text[size - 1] == '='; pad++) {
        size--;
    }
    if (size == 0 || size % 4 == 1) {
        return -1;
    }
    unsigned char *data = malloc(size / 4 * 3 + 3);
    if (!data) {
        return -1;
    }
    size_t n = 0;
    uint32_t word = 0;
    int bits = 0;
    for (size_t i = 0; i < size; i++) {
        int d = image_digit(text[i]);
        if (d < 0) {
            free(data);
            return -1;
        }
        word = word << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            data[n++] = (unsigned char)(word >> bits);
        }
    }
    out->data = data;
    out->size = n;
    return 0;
}

static int take_trailer(struct bytes *contents, struct bytes *image, const char **why)
{
    struct trailer t;
    if (contents->size < sizeof t) {
        return 0;
    }
    memcpy(&t, contents->data + contents->size - sizeof t, sizeof t);
    if (memcmp(t.magic, TRAILER_MAGIC, sizeof t.magic) != 0) {
        return 0;
    }
    if (t.size == 0 || t.size > contents->size - sizeof t) {
        *why = "the CPU image after the cubin is damaged";
        return -1;
    }
    unsigned char *object = malloc(t.size);
    if (!object) {
        *why = "out of memory";
        return -1;
    }
    contents->size -= sizeof t + t.size;
    memcpy(object, contents->data + contents->size, t.size);
    image->data = object;
    image->size = t.size;
    return 0;
}

static int cudabin_take_lines(struct bytes *contents, struct bytes *image, const char **why)
{
    const size_t prefix = sizeof MT_PTX_PREFIX - 1;
    unsigned char *at = contents->data;
    for (;;) {
        unsigned char *end = contents->data + contents->size;
        at = memmem(at, (size_t)(end - at), MT_PTX_PREFIX, prefix);
        if (!at) {
            return 0;
        }
        unsigned char *begin = at;
        while (begin > contents->data && (begin[-1] == ' ' || begin[-1] == '\t')) {
            begin--;
        }
        if (begin > contents->data && begin[-1] != '\n') { /* within another line, so it is no image */
            at += prefix;
            continue;
        }
        unsigned char *lf = memchr(at, '\n', (size_t)(end - at));
        if (!lf) {
            lf = end;
        }
        mt_cudabin_bytes_free(image);
        if (image_decode(at + prefix, (size_t)(lf - at) - prefix, image) != 0) {
            *why = "the CPU image in the PTX is damaged";
            return -1;
        }
        /* Keeps the LF, so that the assembler's messages have the right line numbers. */
        memmove(begin, lf, (size_t)(end - lf));
        contents->size -= (size_t)(lf - begin);
        at = begin;
    }
}

/* Removes the CPU image from a PTX file (comment lines) or a cubin (trailer), in place. `image` receives the
 * relocatable object, the last one if a PTX has several, or nothing. PTX keeps its number of lines, and gets
 * the directives that the compiler cannot write. Returns 0, or -1 with *why (static) if the image is damaged.
 */
static int cudabin_image_take(struct bytes *contents, struct bytes *image, const char **why)
{
    image->data = NULL;
    image->size = 0;
    if (contents->size == 0) {
        return 0;
    }
    int status = take_trailer(contents, image, why);
    if (status == 0 && image->size == 0 &&
        memcmp(contents->data, "\177ELF", contents->size < 4 ? contents->size : 4) != 0) {
        status = cudabin_take_lines(contents, image, why);
        if (status == 0) {
            status = image_put_clusters(contents, why);
        }
    }
    return status;
}

/* Appends `object` to the cubin at path, in the form that cudabin_image_take reads. Returns 0, or -1 with
 * errno. */
static int cudabin_image_append(const char *path, const struct bytes *object)
{
    struct trailer t = {.size = object->size};
    memcpy(t.magic, TRAILER_MAGIC, sizeof t.magic);
    if (mt_cudabin_file_append(path, object->data, object->size) != 0) {
        return -1;
    }
    return mt_cudabin_file_append(path, &t, sizeof t);
}

/* ---- bin/ptxas of the overlay. Arguments are those of the real ptxas, to which they are passed; input files
 * with a CPU image are replaced by copies without it. MEMTRACE_PTXAS names another ptxas to run, or is
 * "none": nothing is assembled, and the program has only CPU image and PTX (for code that this ptxas cannot
 * assemble, or to save compile time) ---- */

/* Returns the value of -o FILE, --output-file FILE or --output-file=FILE at argv[i], or NULL. *two: the value
 * is argv[i + 1]. */
static const char *output_option(int argc, char **argv, int i, int *two)
{
    static const char *const names[] = {"-o", "--output-file", "-output-file"};
    *two = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t length = strlen(names[n]);
        if (strncmp(argv[i], names[n], length) != 0) {
            continue;
        }
        if (argv[i][length] == '=') {
            return argv[i] + length + 1;
        }
        if (argv[i][length] == 0 && i + 1 < argc) {
            *two = 1;
            return argv[i + 1];
        }
    }
    return NULL;
}

/* Implements "none": writes an empty cubin, to which the image is appended. bin/fatbinary omits empty cubins.
 */
static int assemble_nothing(const char *output)
{
    FILE *f = fopen(output, "we");
    if (!f || fclose(f) != 0) {
        return mt_cli_fail("%s: %s", output, strerror(errno));
    }
    return 0;
}

/* Removes the image from input file argv[i]; replaces the argument by a changed copy if there was one. */
static int ptxas_take_input(char **file, struct bytes *image)
{
    struct bytes ptx = {0}, found = {0};
    const char *why = NULL;
    int code = 0;
    if (mt_cudabin_file_read(*file, &ptx) != 0) {
        return mt_cli_fail("%s: %s", *file, strerror(errno));
    }
    size_t whole = ptx.size;
    if (cudabin_image_take(&ptx, &found, &why) != 0) {
        code = mt_cli_fail("%s: %s; compile it again", *file, why);
    } else if (ptx.size != whole) {
        const char *copy = mt_cudabin_temp_write(".ptx", ptx.data, ptx.size);
        if (found.size > 0) {
            mt_cudabin_bytes_free(image);
            *image = found;
        }
        if (copy) {
            *file = (char *)copy;
        } else {
            code = mt_cli_fail("no temporary copy of %s: %s", *file, strerror(errno));
        }
    }
    mt_cudabin_bytes_free(&ptx);
    return code;
}

static int cudabin_is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int cudabin_ptxas_main(const struct tool *tool, int argc, char **argv)
{
    const char *output = "elf.o"; /* default of the real ptxas */
    const char *override = getenv("MEMTRACE_PTXAS");
    int none = override && strcmp(override, "none") == 0;
    struct bytes image = {0};
    int inputs = 0, code = 0;

    argv[0] = override && *override && !none ? (char *) override : tool->real;
    for (int i = 1; i < argc && code == 0; i++) {
        int two;
        const char *value = output_option(argc, argv, i, &two);
        if (value) {
            output = value;
            i += two;
        } else if (argv[i][0] != '-' && cudabin_is_regular(argv[i])) {
            inputs++;
            code = ptxas_take_input(&argv[i], &image);
        }
    }
    if (code == 0) {
        code = none && inputs > 0 ? assemble_nothing(output) : mt_cudabin_process_run(argv);
    }
    if (code < 0) {
        code = mt_cli_fail("cannot run %s: %s", argv[0], strerror(errno));
    }
    /* Never appends to devices and pipes: `-o /dev/null` only tests whether the input assembles. */
    if (code == 0 && image.size > 0 && cudabin_is_regular(output) &&
        cudabin_image_append(output, &image) != 0) {
        code = mt_cli_fail("%s: %s", output, strerror(errno));
        unlink(output);
    }
    mt_cudabin_bytes_free(&image);
    return code;
}

/* ---- bin/fatbinary of the overlay: translates clang 19's options to the toolkit's, takes the images out of
 * the inputs, links them, and appends the result to the fatbin ----
 *
 *   clang 19   --image=profile=sm_90,file=F       --image=profile=compute_90,file=F
 *   CUDA 13    --image3=kind=elf,sm=90,file=F     --image3=kind=ptx,sm=90,file=F
 *
 * MEMTRACE_LD names the linker for the CPU image, instead of ld, ld.lld-19 or ld.lld. */

#define FATBIN_MAGIC 0xba55ed50u
struct fatbin_header { /* form of CUDA 8 to 13 */
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* bytes after the header */
};
_Static_assert(sizeof(struct fatbin_header) == 16, "fatbin header is 16 bytes");

/* An --image or --image3 argument. The strings point into the argument, except sm. */
struct input {
    int index, count; /* argv[index], and the number of arguments: 1 for --image=X, 2 for --image X */
    int image3;
    const char *file;
    char kind[8], sm[16];
    int profile; /* value of profile=, from which kind and sm are derived */
};

/* State of one run. */
struct job {
    const struct tool *tool;
    char **args; /* arguments for the real fatbinary, NULL-terminated, each on the heap */
    int nargs;
    const char *output;
    struct bytes image; /* relocatable object of the highest architecture */
    long image_sm;
    int images_in; /* number of inputs passed on */
    int dropped;   /* number of inputs omitted because nothing was assembled */
};

static int add_arg(struct job *job, char *arg)
{
    if (!arg) {
        return mt_cli_fail("out of memory");
    }
    job->args[job->nargs++] = arg;
    job->args[job->nargs] = NULL;
    return 0;
}

/* Copies the value of key= up to the next comma. Returns 1 if the key is present. */
static int fatbinary_field(const char *spec, const char *key, char *out, size_t room)
{
    size_t length = strlen(key);
    for (const char *p = spec; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, "file=", 5) == 0) {
            return 0; /* a file name extends to the end, since it may contain commas */
        }
        if (strncmp(p, key, length) == 0) {
            size_t n = strcspn(p + length, ",");
            snprintf(out, room, "%.*s", (int)(n < INT_MAX ? n : INT_MAX), p + length);
            return 1;
        }
    }
    return 0;
}

/* Parses argv[i] into *in. Returns 1 if it is an image argument. */
static int parse_input(int argc, char **argv, int i, struct input *in)
{
    static const char *const names[] = {"--image3", "-image3", "--image", "-image", "-im"};
    const char *spec = NULL;
    memset(in, 0, sizeof *in);
    for (size_t n = 0; n < sizeof names / sizeof *names && !spec; n++) {
        size_t length = strlen(names[n]);
        if (strncmp(argv[i], names[n], length) != 0) {
            continue;
        }
        in->image3 = n < 2;
        in->index = i;
        if (argv[i][length] == '=') {
            in->count = 1;
            spec = argv[i] + length + 1;
        } else if (argv[i][length] == 0 && i + 1 < argc) {
            in->count = 2;
            spec = argv[i + 1];
        }
    }
    if (!spec) {
        return 0;
    }
    const char *file = strncmp(spec, "file=", 5) == 0 ? spec : strstr(spec, ",file=");
    if (!file) {
        return 0; /* the real fatbinary reports the error */
    }
    in->file = strchr(file, '=') + 1;
    char profile[32];
    if (fatbinary_field(spec, "profile=", profile, sizeof profile)) {
        const char *number = strchr(profile, '_');
        in->profile = number != NULL;
        snprintf(in->kind, sizeof in->kind, "%s", strncmp(profile, "compute_", 8) == 0 ? "ptx" : "elf");
        snprintf(in->sm, sizeof in->sm, "%.15s", number ? number + 1 : "");
    } else {
        fatbinary_field(spec, "kind=", in->kind, sizeof in->kind);
        fatbinary_field(spec, "sm=", in->sm, sizeof in->sm);
    }
    return 1;
}

/* Returns the argument with another file name, from CUDA 13 on in the new spelling. NULL: no memory. */
static char *spell_input(const struct job *job, char **argv, const struct input *in, const char *file)
{
    char *text = NULL;
    if (in->profile && !in->image3 && job->tool->cuda >= 13000) {
        return asprintf(&text, "--image3=kind=%s,sm=%s,file=%s", in->kind, in->sm, file) < 0 ? NULL : text;
    }
    const char *spec = in->count == 2 ? argv[in->index + 1] : strchr(argv[in->index], '=') + 1;
    int head = (int)(in->file - spec);
    return asprintf(&text, "--image%s=%.*s%s", in->image3 ? "3" : "", head, spec, file) < 0 ? NULL : text;
}

/* Takes the image out of an input, and adds the input to the real tool's arguments. */
static int fatbinary_take_input(struct job *job, char **argv, const struct input *in)
{
    struct bytes contents = {0}, image = {0};
    const char *why = NULL, *file = in->file;
    int code = 0;
    if (mt_cudabin_file_read(file, &contents) != 0) {
        job->images_in++; /* the real fatbinary reports the error */
        return add_arg(job, spell_input(job, argv, in, file));
    }
    size_t whole = contents.size;
    if (cudabin_image_take(&contents, &image, &why) != 0) {
        code = mt_cli_fail("%s: %s; compile it again", file, why);
        goto out;
    }
    long sm = strtol(in->sm, NULL, 10);
    if (image.size > 0 && (job->image.size == 0 || sm >= job->image_sm)) {
        mt_cudabin_bytes_free(&job->image);
        job->image = image;
        job->image_sm = sm;
        memset(&image, 0, sizeof image);
    }
    if (contents.size == 0) { /* nothing was assembled (MEMTRACE_PTXAS=none) */
        job->dropped++;
        goto out;
    }
    if (contents.size != whole || strchr(file, ',')) {
        file = mt_cudabin_temp_write(strcmp(in->kind, "ptx") == 0 ? ".ptx" : ".cubin", contents.data,
                                     contents.size);
        if (!file) {
            code = mt_cli_fail("no temporary copy of %s: %s", in->file, strerror(errno));
            goto out;
        }
    }
    job->images_in++;
    code = add_arg(job, spell_input(job, argv, in, file));
out:
    mt_cudabin_bytes_free(&contents);
    mt_cudabin_bytes_free(&image);
    return code;
}

static int read_arguments(struct job *job, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct input in;
        if (parse_input(argc, argv, i, &in)) {
            if (fatbinary_take_input(job, argv, &in) != 0) {
                return 1;
            }
            i += in.count - 1;
            continue;
        }
        if (strncmp(argv[i], "--create=", 9) == 0) {
            job->output = argv[i] + 9;
        } else if ((strcmp(argv[i], "--create") == 0 || strcmp(argv[i], "-create") == 0) && i + 1 < argc) {
            job->output = argv[i + 1];
        }
        if (add_arg(job, strdup(argv[i])) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Runs the first linker that exists. Returns its exit code, or -1 with errno. */
static int run_linker(const char *object, const char *out)
{
    const char *chosen = getenv("MEMTRACE_LD");
    const char *const usual[] = {"ld", "ld.lld-19", "ld.lld"};
    char *args[] = {NULL,          "-shared", "--hash-style=gnu", "--build-id=none", "-z", "now", "-z",
                    "noexecstack", "-o",      (char *)out,        (char *)object,    NULL};
    if (chosen && *chosen) {
        args[0] = (char *)chosen;
        return mt_cudabin_process_run(args);
    }
    int code = -1;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        args[0] = (char *)usual[i];
        code = mt_cudabin_process_run(args);
        if (code != -1 || errno != ENOENT) {
            break;
        }
    }
    return code;
}

/* Links the relocatable object to a shared object, in which symbols of libmemtrace.so stay undefined. */
static int link_image(struct job *job, struct bytes *linked)
{
    const char *object = mt_cudabin_temp_write(".o", job->image.data, job->image.size);
    const char *out = object ? mt_cudabin_temp_write(".so", "", 0) : NULL;
    if (!out) {
        return mt_cli_fail("no temporary file for the CPU image: %s", strerror(errno));
    }
    int code = run_linker(object, out);
    if (code < 0) {
        return mt_cli_fail("no linker for the CPU image (%s): install binutils or lld-19, or set MEMTRACE_LD",
                           strerror(errno));
    }
    if (code > 0) {
        mt_cli_fail("the CPU image does not link");
        return code;
    }
    if (mt_cudabin_file_read(out, linked) != 0) {
        return mt_cli_fail("%s: %s", out, strerror(errno));
    }
    return 0;
}

/* Makes the header of an image of `size` bytes. Its architecture is that of the fatbin's first entry, since
 * NVIDIA's tools must know it. */
static struct mt_carrier carrier_of(const struct bytes *fatbin, const struct fatbin_header *header,
                                    uint64_t size)
{
    const size_t head = offsetof(struct mt_carrier, kind);
    struct mt_carrier c = {.magic = MT_CARRIER_MAGIC,
                           .version = 1,
                           .header_size = (uint16_t)head,
                           .kind = MT_CARRIER_KIND,
                           .entry_version = 0x101,
                           .entry_header_size = MT_CARRIER_ENTRY,
                           .code_version = 0x10008,
                           .arch = 75,
                           .flags = 0x11, /* flags for 64 bits and Linux */
                           .payload = {.size = size}};
    memcpy(c.payload.magic, MT_PAYLOAD_MAGIC, sizeof c.payload.magic);
    c.entry_size = (sizeof c.payload + size + 7) & ~(uint64_t)7;
    c.size = MT_CARRIER_ENTRY + c.entry_size;
    if (header->size >= MT_CARRIER_ENTRY)
        memcpy(&c.arch, fatbin->data + header->header_size + offsetof(struct mt_carrier, arch) - head,
               sizeof c.arch);
    return c;
}

/* Appends the payload to the fatbin at path. */
static int append_payload(struct job *job, const struct bytes *linked)
{
    static const unsigned char zeros[8];
    struct fatbin_header header;
    struct bytes fatbin = {0};
    struct mt_carrier carrier;
    int code = 0;
    if (mt_cudabin_file_read(job->output, &fatbin) != 0) {
        return mt_cli_fail("%s: %s", job->output, strerror(errno));
    }
    if (fatbin.size >= sizeof header) {
        memcpy(&header, fatbin.data, sizeof header);
    }
    if (fatbin.size < sizeof header || header.magic != FATBIN_MAGIC ||
        header.header_size + header.size > fatbin.size ||
        fatbin.size - header.header_size - header.size > 7) {
        code = mt_cli_fail("%s has a layout that is not known here (%zu bytes): is this CUDA supported?",
                           job->output, fatbin.size);
        goto out;
    }
    size_t pad = ((header.header_size + header.size + 7) & ~(uint64_t)7) - fatbin.size;
    carrier = carrier_of(&fatbin, &header, linked->size);
    if (mt_cudabin_file_append(job->output, zeros, pad) != 0 ||
        mt_cudabin_file_append(job->output, &carrier, sizeof carrier) != 0 ||
        mt_cudabin_file_append(job->output, linked->data, linked->size) != 0 ||
        mt_cudabin_file_append(job->output, zeros, (8 - linked->size % 8) % 8) != 0) {
        code = mt_cli_fail("%s: %s", job->output, strerror(errno));
    }
out:
    mt_cudabin_bytes_free(&fatbin);
    return code;
}

/* Writes an empty fatbin, for programs without GPU code. */
static int write_empty(struct job *job)
{
    struct fatbin_header header = {.magic = FATBIN_MAGIC, .version = 1, .header_size = sizeof header};
    FILE *f = fopen(job->output, "we");
    if (!f) {
        return mt_cli_fail("%s: %s", job->output, strerror(errno));
    }
    size_t n = fwrite(&header, sizeof header, 1, f);
    if (fclose(f) != 0 || n != 1) {
        return mt_cli_fail("%s: %s", job->output, strerror(errno));
    }
    return 0;
}

static int fatbinary_run(struct job *job)
{
    struct bytes linked = {0};
    int code = 0;
    if (job->image.size > 0 && job->output) {
        code = link_image(job, &linked);
        if (code != 0) {
            return code;
        }
    }
    if (job->images_in == 0 && job->dropped > 0 && job->output) {
        code = linked.size > 0
                   ? write_empty(job)
                   : mt_cli_fail("nothing to put into %s: no GPU code (MEMTRACE_PTXAS=none), no PTX "
                                 "and no CPU image",
                                 job->output);
    } else {
        code = mt_cudabin_process_run(job->args);
    }
    if (code < 0) {
        code = mt_cli_fail("cannot run %s: %s", job->args[0], strerror(errno));
    }
    /* Never appends to devices and pipes, and never removes them. */
    if (code == 0 && linked.size > 0 && (cudabin_is_regular(job->output) || access(job->output, F_OK) != 0)) {
        code = append_payload(job, &linked);
        if (code != 0) {
            unlink(job->output);
        }
    }
    mt_cudabin_bytes_free(&linked);
    return code;
}

static int cudabin_fatbinary_main(const struct tool *tool, int argc, char **argv)
{
    struct job job = {.tool = tool};
    int code = 1;
    job.args = calloc((size_t)argc + 1, sizeof *job.args);
    if (!job.args) {
        return mt_cli_fail("out of memory");
    }
    if (add_arg(&job, strdup(tool->real)) == 0 && read_arguments(&job, argc, argv) == 0) {
        code = fatbinary_run(&job);
    }
    for (int i = 0; i < job.nargs; i++) {
        free(job.args[i]);
    }
    free(job.args);
    mt_cudabin_bytes_free(&job.image);
    return code;
}

int main(int argc, char **argv)
{
    struct tool tool;
    if (cudabin_tool_find(&tool) != 0) {
        return 1;
    }
    mt_cudabin_process_guard();
    int code = strcmp(tool.name, "ptxas") == 0 ? cudabin_ptxas_main(&tool, argc, argv)
                                               : cudabin_fatbinary_main(&tool, argc, argv);
    mt_cudabin_temp_remove();
    free(tool.real);
    return mt_cudabin_process_exit_code(code);
}
