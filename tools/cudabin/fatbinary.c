/* bin/fatbinary of the overlay: clang 19's option spelling made this toolkit's, images taken out of the
 * inputs, linked, and put after the fatbin.
 *
 *   clang 19   --image=profile=sm_90,file=F       --image=profile=compute_90,file=F
 *   CUDA 13    --image3=kind=elf,sm=90,file=F     --image3=kind=ptx,sm=90,file=F
 *
 * MEMTRACE_LD: the linker for the CPU image, instead of ld, ld.lld-19 or ld.lld. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "format/image.h"
#include "cudabin.h"

#define FATBIN_MAGIC 0xba55ed50u
struct fatbin_header { /* as CUDA 8 to 13 write it */
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* bytes that follow the header */
};
_Static_assert(sizeof(struct fatbin_header) == 16, "fatbin header is 16 bytes");

/* One --image or --image3 argument. Strings point into the argument, except sm. */
struct input {
    int index, count; /* argv[index], and how many arguments it takes: --image=X is one, --image X two */
    int image3;
    const char *file;
    char kind[8], sm[16];
    int profile; /* what was given as profile=, so that kind and sm are derived */
};

/* The whole state of one run. */
struct job {
    const struct tool *tool;
    char **args; /* for the real fatbinary, NULL-terminated; each on the heap */
    int nargs;
    const char *output;
    struct bytes image; /* relocatable object of the highest architecture */
    long image_sm;
    int images_in; /* inputs handed on */
    int dropped;   /* inputs left out because nothing was assembled */
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

/* Copies the value of key= up to the next comma; 1 if there. */
static int fatbinary_field(const char *spec, const char *key, char *out, size_t room)
{
    size_t length = strlen(key);
    for (const char *p = spec; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, "file=", 5) == 0) {
            return 0; /* the file name is the rest: it may have commas */
        }
        if (strncmp(p, key, length) == 0) {
            size_t n = strcspn(p + length, ",");
            snprintf(out, room, "%.*s", (int)(n < INT_MAX ? n : INT_MAX), p + length);
            return 1;
        }
    }
    return 0;
}

/* Is argv[i] an image argument? Fills *in. */
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
        return 0; /* the real one will say what is wrong with it */
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

/* The same argument with another file and, from CUDA 13 on, in today's spelling. NULL: out of memory. */
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

/* Takes the image out of one input and adds the input to the real tool's arguments. */
static int take_input(struct job *job, char **argv, const struct input *in)
{
    struct bytes contents = {0}, image = {0};
    const char *why = NULL, *file = in->file;
    int code = 0;
    if (mt_cudabin_file_read(file, &contents) != 0) {
        job->images_in++; /* the real one names what is wrong */
        return add_arg(job, spell_input(job, argv, in, file));
    }
    size_t whole = contents.size;
    if (mt_cudabin_image_take(&contents, &image, &why) != 0) {
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
    if (contents.size == 0) { /* MEMTRACE_PTXAS=none */
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
            if (take_input(job, argv, &in) != 0) {
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

/* Runs the first linker that there is; its exit code, or -1 with errno. */
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

/* Links the relocatable object to a shared object. Symbols of libmemtrace.so stay undefined. */
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

/* What is in front of an image of `size` bytes. The architecture is one that NVIDIA's tools know: that of
 * the fatbin's first entry. */
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
                           .flags = 0x11, /* 64 bits, Linux */
                           .payload = {.size = size}};
    memcpy(c.payload.magic, MT_PAYLOAD_MAGIC, sizeof c.payload.magic);
    c.entry_size = (sizeof c.payload + size + 7) & ~(uint64_t)7;
    c.size = MT_CARRIER_ENTRY + c.entry_size;
    if (header->size >= MT_CARRIER_ENTRY)
        memcpy(&c.arch, fatbin->data + header->header_size + offsetof(struct mt_carrier, arch) - head,
               sizeof c.arch);
    return c;
}

/* Puts the payload after the fatbin at path. */
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

/* A fatbin with nothing in it, for programs without GPU code. */
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
    /* Not into devices and pipes, and never are those removed. */
    if (code == 0 && linked.size > 0 &&
        (mt_cudabin_file_is_regular(job->output) || access(job->output, F_OK) != 0)) {
        code = append_payload(job, &linked);
        if (code != 0) {
            unlink(job->output);
        }
    }
    mt_cudabin_bytes_free(&linked);
    return code;
}

int mt_cudabin_fatbinary_main(const struct tool *tool, int argc, char **argv)
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
