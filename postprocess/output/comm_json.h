/* comm.json: the results of the communication analysis (docs/definitions.md, docs/man/mt-extract.md). */
#ifndef MT_OUTPUT_COMM_JSON_H
#define MT_OUTPUT_COMM_JSON_H
#include <signal.h>
#include "json.h"
#include "analysis/comm/addresses.h"
#include "analysis/comm/comm.h"

enum mt_section {
    MT_KCV,
    MT_KDV,
    MT_CCV,
    MT_CDV,
    MT_SCV,
    MT_SDV,
    MT_HCV, /* the host's, by place: only with a host trace */
    MT_HDV,
    MT_TRANSFERS,
    MT_SENDERS, /* of whom KCV Load is */
    MT_ADDRESSES,
    MT_SECTIONS
};
extern const char *const mt_section_names[MT_SECTIONS];    /* in the order of the output */
extern const char *const mt_sender_names[MT_SENDER_KINDS]; /* in JSON and tables */
extern const char *const mt_sender_words[MT_SENDER_KINDS]; /* in sentences */

#define MT_HOST_NAME "<host>" /* where a kernel's name is */

/* The volume sections and transfers chosen in `sections` (a bit per mt_section), as members of the object
 * under way. 0, or -1 without memory. */
int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections);
/* All keys and their operations, as members of the object under way. 0; 1 when *stop became non-zero or
 * nothing can be written any more; -1 without memory or, with a->why, when the file of operations fails. */
int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop);
#endif
