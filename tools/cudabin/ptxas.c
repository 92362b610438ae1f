/* bin/ptxas of the overlay. Arguments are the real ptxas's and go through unchanged, apart from input files
 * that carry a CPU image: those are replaced by copies without it. MEMTRACE_PTXAS: another ptxas to run, or
 * "none": assemble nothing, so that the program has the CPU image and the PTX only (for code that this ptxas
 * cannot assemble, or when compile time matters). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cudabin.h"

/* The value of -o FILE, --output-file FILE or --output-file=FILE at argv[i], or NULL. *two: the value is
 * argv[i + 1]. */
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

/* "None": the cubin is empty but for the image; bin/fatbinary leaves an empty cubin out. */
static int assemble_nothing(const char *output)
{
    FILE *f = fopen(output, "we");
    if (!f || fclose(f) != 0) {
        return mt_cli_fail("%s: %s", output, strerror(errno));
    }
    return 0;
}

/* Takes the image out of the input file argv[i], which is replaced by a copy when it is not the same then. */
static int take_input(char **file, struct bytes *image)
{
    struct bytes ptx = {0}, found = {0};
    const char *why = NULL;
    int code = 0;
    if (mt_cudabin_file_read(*file, &ptx) != 0) {
        return mt_cli_fail("%s: %s", *file, strerror(errno));
    }
    size_t whole = ptx.size;
    if (mt_cudabin_image_take(&ptx, &found, &why) != 0) {
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

int mt_cudabin_ptxas_main(const struct tool *tool, int argc, char **argv)
{
    const char *output = "elf.o"; /* the real one's default */
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
        } else if (argv[i][0] != '-' && mt_cudabin_file_is_regular(argv[i])) {
            inputs++;
            code = take_input(&argv[i], &image);
        }
    }
    if (code == 0) {
        code = none && inputs > 0 ? assemble_nothing(output) : mt_cudabin_process_run(argv);
    }
    if (code < 0) {
        code = mt_cli_fail("cannot run %s: %s", argv[0], strerror(errno));
    }
    /* Not into devices and pipes: `-o /dev/null` only asks whether it assembles. */
    if (code == 0 && image.size > 0 && mt_cudabin_file_is_regular(output) &&
        mt_cudabin_image_append(output, &image) != 0) {
        code = mt_cli_fail("%s: %s", output, strerror(errno));
        unlink(output);
    }
    mt_cudabin_bytes_free(&image);
    return code;
}
