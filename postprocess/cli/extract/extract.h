/* The parts of memtrace extract: options, reading (extract.c), writing. */
#ifndef MT_CLI_EXTRACT_H
#define MT_CLI_EXTRACT_H
#include "cli/base/pipeline.h"
#include "extract_formats.h"
#include "extract_share.h"
#include "analysis/check/memory.h"
#include "analysis/comm/addresses.h"

struct mt_extract {
    struct mt_pipeline p;
    const char *output;
    unsigned sections;           /* a bit per enum mt_section */
    struct mt_launch_ends *ends; /* of the inputs' launches, when members read a part each */
    int by_parts;                /* they may; the same everywhere */
    struct mt_json json;
    struct mt_addresses addresses;
    uint64_t superstep;            /* that their pass is at */
    int no_addresses;              /* reading was interrupted */
    int many_addresses;            /* they are left out */
    struct mt_extract_share share; /* of it, when members read a part each */
    int sharing;                   /* the others wait for this member */
    int no_more;                   /* the further analyses were interrupted */
    struct mt_formats formats;
    int shared;                   /* the section shared is chosen */
    struct mt_check_memory bytes; /* of the summary, by one process */
    int judges;                   /* bytes are looked at */
    struct mt_findings findings;
    int chosen; /* --sections was given */
    int stats;  /* --stats was */
};

#define MT_MANY_ADDRESSES                                                                                    \
    "addresses are left out: more than 1000000 operations; -s all or -s addresses lists them"

/* The command, as one process (NULL) or as a member of several. */
int mt_extract_run(int argc, char **argv, const struct mt_session *session);

/* 0: go on; -1: done, exit with 0; else the exit code. */
int mt_extract_parse(struct mt_extract *x, int argc, char **argv);

/* Says why, returns the exit code. */
int mt_extract_addresses_failed(const struct mt_addresses *a);

/* The result as JSON, as text, or in another format. Returns the exit code; *complete becomes 0 when not all
 * came out. */
int mt_extract_write(struct mt_extract *x, int complete);
int mt_extract_write_text(struct mt_extract *x, int complete);
int mt_extract_write_other(struct mt_extract *x, int *complete);
#endif
