/* What a run did that it should not have done: the kinds (kinds.def), by which the runtime and memtrace check
 * call it. Companions have their words. */
#ifndef MT_FORMAT_FINDING_H
#define MT_FORMAT_FINDING_H
enum mt_finding_kind {
#define FINDING(id, word, level, group, rule) MT_FINDING_OF_##id,
#include "format/kinds.def"
#undef FINDING
    MT_FINDING_KINDS
};
#endif
