/* Functions of interest: drwrap sees entries, block.c returns; machine/calls.h handles them. */
#include "insert.h"
#include "platform.h"

/* Records the program's memory that a copy of the CUDA runtime reads. */
static void functions_copied(struct mt_client_thread *t, const uint64_t args[3])
{
    struct mt_core_operand o = {args[0], 0, (uint32_t)args[1]};
    mt_client_look(t);
    t->hand.inside++;
    mt_client_others(t, &o, 1, mt_calls_site(&t->calls));
    t->hand.inside--;
}

static void functions_entered(void *wrap, void **user)
{
    struct mt_client_thread *t = mt_client_thread(drwrap_get_drcontext(wrap));
    const struct mt_watch *w = *user;
    dr_mcontext_t *m = drwrap_get_mcontext_ex(wrap, DR_MC_INTEGER | DR_MC_CONTROL);
    if (!t || !t->core || !m || mt_client.forked)
        return;
    uint64_t args[3] = {m->xdi, m->xsi, m->xdx};
    app_pc back = drwrap_get_retaddr(wrap);
    if (w->alloc == MT_FN_READ) {
        functions_copied(t, args);
        return;
    }
    mt_insert_return(back);
    mt_client_look(t);
    t->hand.inside++;
    mt_calls_enter(&t->calls, t->core, w, m->xsp, (uint64_t)(uintptr_t)back - 1, args);
    t->hand.inside--;
    mt_client_look(t); /* inside the CUDA runtime nothing is traced: calls.h counts the depth */
}

/* ---- selection ---- */

enum { FOUND_MAX = 1 << 16 };

static struct {
    struct mt_spin lock;
    const struct mt_watch *item[FOUND_MAX];
    unsigned count, wrapped;
} found;

void mt_functions_found(const struct mt_watch *w)
{
    mt_spin_lock(&found.lock);
    if (found.count < FOUND_MAX)
        found.item[found.count++] = w;
    mt_spin_unlock(&found.lock);
}

void mt_functions_wrap(void)
{
    for (;;) {
        mt_spin_lock(&found.lock);
        const struct mt_watch *w = found.wrapped < found.count ? found.item[found.wrapped++] : NULL;
        mt_spin_unlock(&found.lock);
        if (!w)
            return;
        drwrap_wrap_ex((app_pc)(uintptr_t)w->address, functions_entered, NULL, (void *)w,
                       DRWRAP_CALLCONV_AMD64);
    }
}
