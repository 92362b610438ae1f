/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The part of QEMU's plugin interface in use, declared here because distributions ship no header for it.
 * Versions 1 (QEMU 4.2 to 8.2), 2 (9.0), 3 (9.1) and later; differences are stated below. */
#ifndef MT_HOST_QEMU_API_H
#define MT_HOST_QEMU_API_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct qemu_info_t {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus, max_vcpus;
    } system;
} qemu_info_t;

enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

typedef void qemu_cb_vcpu(qemu_plugin_id_t id, unsigned vcpu);
typedef void qemu_cb_exec(unsigned vcpu, void *arg);
typedef void qemu_cb_mem(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *arg);
typedef void qemu_cb_trans(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void qemu_cb_exit(qemu_plugin_id_t id, void *arg);
typedef void qemu_cb_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                             uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
typedef void qemu_cb_syscall_ret(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_cb_vcpu *f);
void qemu_plugin_register_vcpu_exit_cb(qemu_plugin_id_t id, qemu_cb_vcpu *f);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_cb_trans *f);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_cb_syscall *f);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, qemu_cb_syscall_ret *f);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_cb_exit *f, void *arg);

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_cb_exec *f, int flags, void *arg);
/* Looked up by name: absent from version 4 on. */
enum { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void qemu_exec_inline(struct qemu_plugin_tb *tb, int op, void *word, uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_cb_exec *f, int flags,
                                            void *arg);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_cb_mem *f, int flags, int rw,
                                      void *arg);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* Looked up by name. */
typedef const void *qemu_insn_data_1(const struct qemu_plugin_insn *insn); /* versions 1, 2 */
typedef size_t qemu_insn_data_3(const struct qemu_plugin_insn *insn, void *bytes,
                                size_t size);  /* since version 3 */
typedef const char *qemu_path_to_binary(void); /* since 7.1 */

/* GLib's arrays, as far as their layout is public. */
struct glib_bytes {
    uint8_t *data;
    unsigned len;
};
struct glib_array {
    char *data;
    unsigned len;
};
/* Registers, since version 2. */
typedef struct {
    void *handle;
    const char *name, *feature;
} qemu_reg_descriptor;
typedef struct glib_array *qemu_get_registers(void);
typedef int qemu_read_register(void *handle, struct glib_bytes *buffer);
/* Internal functions that 7.2's binary happens to export. */
typedef void *qemu_get_cpu_f(int index);
typedef int qemu_gdb_read_register(void *cpu, struct glib_bytes *buffer, int number);
#endif
