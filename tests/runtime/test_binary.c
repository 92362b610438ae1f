/* mt_binary beside what the dynamic linker has of the same file, which is this program; and of files that are
 * damaged, where a sanitizer sees what is read outside of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/binary.h"

static const struct link_map *own(void)
{
    return _r_debug.r_map; /* the program comes first */
}

static const char *strings_of(const ElfW(Dyn) * d)
{
    for (; d->d_tag != DT_STRTAB; d++)
        ;
    return (const char *)(d->d_un.d_ptr < own()->l_addr ? own()->l_addr + d->d_un.d_ptr : d->d_un.d_ptr);
}

static void entries(void **state)
{
    struct mt_binary o;
    const char *text = strings_of(own()->l_ld), *name;
    size_t at = 0, n = 0;
    (void)state;
    assert_int_equal(mt_binary_open(&o, "/proc/self/exe"), 0);
    for (const ElfW(Dyn) *d = own()->l_ld; d->d_tag != DT_NULL; d++, n++)
        if (d->d_tag == DT_NEEDED) {
            assert_non_null(name = mt_binary_entry(&o, DT_NEEDED, &at));
            assert_string_equal(name, text + d->d_un.d_val);
        }
    assert_null(mt_binary_entry(&o, DT_NEEDED, &at));
    assert_int_equal(o.nentries, n);
    assert_null(o.soname);
    assert_true(strstr(mt_binary_linker(&o), "ld-linux") != NULL);
    assert_true(mt_binary_section(&o, ".rodata") != 0);
    assert_true(mt_binary_section(&o, ".rodat") == 0);
    mt_binary_close(&o);
}

/* The address of a function is where the table of symbols has it. */
static void symbols(void **state)
{
    struct mt_binary o;
    unsigned found = 0;
    (void)state;
    assert_int_equal(mt_binary_open(&o, "/proc/self/exe"), 0);
    for (size_t i = 0; i < o.all.count; i++)
        if (!strcmp(mt_binary_name(&o.all, &o.all.entry[i]), "mt_binary_open")) {
            assert_true(own()->l_addr + o.all.entry[i].st_value == (uintptr_t)&mt_binary_open);
            found++;
        }
    assert_int_equal(found, 1);
    mt_binary_close(&o);
}

static void *read_own(size_t *size)
{
    FILE *f = fopen("/proc/self/exe", "re");
    fseek(f, 0, SEEK_END);
    char *data = malloc(*size = (size_t)ftell(f));
    rewind(f);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

/* All that is asked of a view, of bytes that end where a sanitizer watches. */
static uint64_t look(const unsigned char *data, size_t size)
{
    unsigned char *copy = malloc(size);
    uint64_t sum = 0, bytes;
    struct mt_elfview v;
    Elf64_Shdr h;
    memcpy(copy, data, size);
    if (mt_elfview_read(&v, copy, size) == 0)
        for (uint64_t i = 0; mt_elfview_section(&v, i, &h) == 0; i++) {
            const unsigned char *at = mt_elfview_contents(&v, &h);
            const char *text = mt_elfview_strings(&v, i, &bytes);
            sum += at && h.sh_size ? at[0] + at[h.sh_size - 1] : 0;
            assert_true(!text || text[bytes - 1] == 0);
        }
    free(copy);
    return sum;
}

/* The headers and the table of sections, each number changed; and the file's end anywhere. */
static void damaged(void **state)
{
    static const uint64_t odd[] = {0,      1, 0x7fff, 0xffff, 0xffffffff, UINT64_MAX, (uint64_t)INT64_MAX,
                                   1 << 20};
    size_t size;
    unsigned char *data = read_own(&size);
    Elf64_Ehdr head;
    memcpy(&head, data, sizeof head);
    (void)state;
    for (size_t cut = 0; cut < 16; cut++)
        look(data, size * cut / 16);
    for (size_t at = 0; at < sizeof head + 3 * sizeof(Elf64_Shdr); at += 2)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
            unsigned char *p = data + (at < sizeof head ? at : head.e_shoff + at), was[8];
            memcpy(was, p, 8);
            memcpy(p, &odd[k], 8);
            look(data, size);
            memcpy(p, was, 8);
        }
    free(data);
}

static void look_at_file(const char *path)
{
    struct mt_binary o;
    const char *name;
    if (mt_binary_open(&o, path) != 0)
        return;
    const unsigned char *end = o.view.data + o.view.size;
    assert_true(!o.entries || (const unsigned char *)(o.entries + o.nentries) <= end);
    assert_true(!o.text || ((const unsigned char *)o.text + o.text_size <= end && !o.text[o.text_size - 1]));
    assert_true(!o.names || !o.names[o.names_size - 1]);
    for (size_t k = 0; (name = mt_binary_entry(&o, DT_NEEDED, &k));)
        assert_true(name >= o.text && name < o.text + o.text_size);
    (void)mt_binary_linker(&o);
    mt_binary_close(&o);
}

/* Changes a number of the file, looks, and changes it back. */
static void change(int fd, const char *path, const unsigned char *data, uint64_t place, uint64_t number)
{
    assert_int_equal(pwrite(fd, &number, 8, (off_t)place), 8);
    look_at_file(path);
    assert_int_equal(pwrite(fd, data + place, 8, (off_t)place), 8);
}

/* The same of a whole file: segments, entries of the dynamic section, ends of strings. */
static void damaged_files(void **state)
{
    static const uint64_t odd[] = {PT_DYNAMIC, UINT64_MAX, UINT64_MAX - 7, 1 << 20, 8};
    char path[] = "/tmp/mt-binary-XXXXXX";
    size_t size;
    unsigned char *data = read_own(&size);
    struct mt_elfview v;
    Elf64_Shdr h;
    int fd = mkstemp(path);
    (void)state;
    assert_true(write(fd, data, size) == (ssize_t)size);
    assert_int_equal(mt_elfview_read(&v, data, size), 0);
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        for (size_t at = 0; at < v.head.e_phnum * sizeof(Elf64_Phdr); at += 8)
            change(fd, path, data, v.head.e_phoff + at, odd[k]);
        for (uint64_t i = 0; mt_elfview_section(&v, i, &h) == 0; i++)
            for (uint64_t at = 0; h.sh_type == SHT_DYNAMIC && at < h.sh_size; at += 8)
                change(fd, path, data, h.sh_offset + at, odd[k]);
    }
    for (uint64_t i = 0; mt_elfview_section(&v, i, &h) == 0; i++)
        if (h.sh_type == SHT_STRTAB)
            change(fd, path, data, h.sh_offset + h.sh_size - 8, UINT64_MAX);
    close(fd);
    unlink(path);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries), cmocka_unit_test(symbols),
                                       cmocka_unit_test(damaged), cmocka_unit_test(damaged_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
