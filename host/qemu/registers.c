/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "registers.h"
#include "api.h"
#include <dlfcn.h>
#include <string.h>

enum { COUNT = 17, FARTHEST = 1 << 18, UNKNOWN = 0 };

int mt_registers_live;

static qemu_get_cpu_f *cpu_of;
static qemu_gdb_read_register *gdb_read;
static qemu_get_registers *list;
static qemu_read_register *read_one;
static struct glib_bytes *(*bytes_new)(void);
static struct glib_bytes *(*bytes_resize)(struct glib_bytes *, unsigned);
static struct glib_bytes *(*bytes_free)(struct glib_bytes *, int);
static long offset; /* offset of rax from the vCPU's object; the others follow by number */

/* gdb's numbering -> the instructions' numbering */
static const uint8_t number_of[COUNT] = {0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const char *const names[COUNT] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
                                         "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};

int mt_registers_start(void)
{
    *(void **)&bytes_new = dlsym(RTLD_DEFAULT, "g_byte_array_new");
    *(void **)&bytes_resize = dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
    *(void **)&bytes_free = dlsym(RTLD_DEFAULT, "g_byte_array_free");
    *(void **)&list = dlsym(RTLD_DEFAULT, "qemu_plugin_get_registers");
    *(void **)&read_one = dlsym(RTLD_DEFAULT, "qemu_plugin_read_register");
    *(void **)&cpu_of = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
    *(void **)&gdb_read = dlsym(RTLD_DEFAULT, "x86_cpu_gdb_read_register");
    if (!bytes_new || !bytes_resize || !bytes_free)
        return -1;
    if (list && read_one)
        return 0;
    mt_registers_live = cpu_of && gdb_read;
    return mt_registers_live ? 0 : -1;
}

static int ask_debugger(void *cpu, uint64_t value[COUNT])
{
    struct glib_bytes *b = bytes_new();
    int n = 0;
    for (; n < COUNT; n++) {
        bytes_resize(b, 0);
        if (gdb_read(cpu, b, n) != 8 || b->len < 8)
            break;
        memcpy(&value[number_of[n]], b->data, 8);
    }
    bytes_free(b, 1);
    return n == COUNT ? 0 : -1;
}

/* Finds the registers' values, which are consecutive in the object; otherwise the offset stays unknown. */
static void registers_find(const char *cpu)
{
    uint64_t value[COUNT];
    if (ask_debugger((void *)(uintptr_t)cpu, value) != 0 || value[MT_RSP] == 0)
        return;
    for (long at = 0; at < FARTHEST; at += 8)
        if (!memcmp(cpu + at, value, sizeof value)) {
            offset = at;
            return;
        }
}

void mt_registers_attach(struct mt_thread *t, unsigned vcpu)
{
    if (!mt_registers_live)
        return;
    const char *cpu = cpu_of((int)vcpu);
    if (cpu && offset == UNKNOWN)
        registers_find(cpu);
    if (cpu && offset != UNKNOWN)
        t->registers = (const uint64_t *)(const void *)(cpu + offset);
}

static void *registers_handle(unsigned k)
{
    static void *handles[COUNT]; /* the same for all vCPUs of an x86-64 guest */
    if (!handles[k]) {
        struct glib_array *all = list();
        const qemu_reg_descriptor *d = all ? (const void *)all->data : NULL;
        for (unsigned i = 0; all && i < all->len; i++)
            for (unsigned n = 0; n < COUNT; n++)
                if (!strcmp(d[i].name, names[n]))
                    handles[n] = d[i].handle;
    }
    return handles[k];
}

void mt_registers_read(struct mt_thread *t)
{
    if (mt_registers_live || !list || !read_one)
        return;
    struct glib_bytes *b = bytes_new();
    t->registers = t->copy;
    for (unsigned k = 0; k < COUNT; k++) {
        bytes_resize(b, 0);
        if (!registers_handle(k) || read_one(registers_handle(k), b) < 0 || b->len < 8)
            t->registers = NULL;
        else
            memcpy(&t->copy[k], b->data, 8);
    }
    bytes_free(b, 1);
}
