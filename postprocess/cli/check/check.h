/* `memtrace check`: a program is run under MEMTRACE_CHECK (check_run.c) or a trace is given, the trace is
 * read (check_read.c), or those of all programs that it ran (check_answer.c), what is known and accepted is
 * taken out (check_suppress.c), and the rest is told. */
#ifndef MT_CLI_CHECK_H
#define MT_CLI_CHECK_H
#include "analysis/check/findings.h"
#include "cli/base/cli.h"

/* What is looked for: a bit for each of mt_finding_kinds. */
struct mt_check_choice {
    uint32_t kinds;
};
static inline int mt_check_wants(const struct mt_check_choice *c, enum mt_finding_kind kind)
{
    return c->kinds >> kind & 1;
}
/* Is one of this group wanted? */
int mt_check_wants_group(const struct mt_check_choice *c, enum mt_finding_group group);

/* The program that `argv` names, its trace into `folder`. *code: its exit code, as a shell has it. 0, or an
 * exit code after saying why. */
int mt_check_run(char **argv, const char *folder, const struct mt_check_choice *choice, int stop, int *code);

/* What the trace says. 0 or MT_EXIT_INPUT; *complete as of mt_inputs_finish; others: an exit code after
 * saying why. `source` stays open: texts are its. ran: the program was run just now. */
int mt_check_read(struct mt_source *source, const struct mt_check_choice *choice, int ran,
                  struct mt_findings *f, int *complete);

/* What the traces of one program or several say. */
struct mt_check_answer {
    struct mt_findings findings; /* with texts of their own */
    const char *program;         /* the first one; "": not known */
    const char **notes;
    size_t nnotes, note_room;
    int complete; /* all are, as of mt_inputs_finish */
    int left;     /* a trace has no end */
    int blind;    /* threads have something between them of which a trace has no record */
};
void mt_check_answer_init(struct mt_check_answer *a);
void mt_check_answer_free(struct mt_check_answer *a);
/* Adds what the inputs say, or the traces of all programs in a folder, as mt_check_read; the inputs then have
 * the options. */
int mt_check_answer_read(struct mt_check_answer *a, struct mt_inputs *in,
                         const struct mt_check_choice *choice, int ran);
int mt_check_answer_folder(struct mt_check_answer *a, const char *folder, struct mt_inputs *in,
                           const struct mt_check_choice *choice);

/* Lines of calls whose addresses alone are known. */
void mt_check_places(struct mt_findings *f);

/* Takes out what `path` (see the manual) lists; *taken is how many. 0, or an exit code after saying why. */
int mt_check_suppress(struct mt_findings *f, const char *path, size_t *taken);
#endif
