/* Functions of a loaded library by name and version node, without the dynamic linker, which is at work. */
#include "attach.h"
#include <string.h>

/* Addresses in the dynamic section have been relocated, or not, as the dynamic linker likes. */
static const void *library_at(const struct mt_attach_library *l, uint64_t address)
{
    return (const void *)(address < l->base ? l->base + address : address);
}

int mt_attach_library_read(struct mt_attach_library *l, const struct link_map *map)
{
    *l = (struct mt_attach_library){.base = map->l_addr};
    for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_SYMTAB:
            l->symbols = library_at(l, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            l->strings = library_at(l, d->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            l->hash = library_at(l, d->d_un.d_ptr);
            break;
        case DT_VERSYM:
            l->versions = library_at(l, d->d_un.d_ptr);
            break;
        case DT_VERDEF:
            l->nodes = library_at(l, d->d_un.d_ptr);
            break;
        default:
            break;
        }
    return l->symbols && l->strings && l->hash && l->versions && l->nodes ? 0 : -1;
}

unsigned mt_attach_library_node(const struct mt_attach_library *l, const char *name)
{
    for (const Elf64_Verdef *v = l->nodes;; v = (const Elf64_Verdef *)((const char *)v + v->vd_next)) {
        const Elf64_Verdaux *a = (const Elf64_Verdaux *)((const char *)v + v->vd_aux);
        if (strcmp(l->strings + a->vda_name, name) == 0)
            return v->vd_ndx;
        if (!v->vd_next)
            return 0;
    }
}

static uint32_t library_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

void *mt_attach_library_find(const struct mt_attach_library *l, const char *name, unsigned node)
{
    /* buckets, first symbol, words of the Bloom filter, its shift; the filter; the buckets; the chains */
    const uint32_t *t = l->hash, h = library_hash(name);
    const uint32_t *buckets = t + 4 + 2 * (size_t)t[2], *chains = buckets + t[0];
    uint32_t i = buckets[h % t[0]];
    if (i < t[1])
        return NULL;
    for (;; i++) {
        const Elf64_Sym *y = &l->symbols[i];
        uint32_t chain = chains[i - t[1]];
        if ((chain | 1) == (h | 1) && y->st_shndx != SHN_UNDEF &&
            (!node || (l->versions[i] & 0x7fff) == node) && strcmp(l->strings + y->st_name, name) == 0)
            return (void *)(l->base + y->st_value);
        if (chain & 1)
            return NULL;
    }
}
