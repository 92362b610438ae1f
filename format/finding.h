/* Kinds of findings (kinds.def): errors and waste in a run, as the runtime and memtrace check number them.
 * Companion files have the words. */
#ifndef MT_FORMAT_FINDING_H
#define MT_FORMAT_FINDING_H
enum mt_finding_kind {
#define FINDING(id, word, level, group, rule) MT_FINDING_OF_##id,
#include "format/kinds.def"
#undef FINDING
    MT_FINDING_KINDS
};
#endif
