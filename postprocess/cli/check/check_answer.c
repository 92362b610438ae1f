/* What the traces of one program, or of several, say: each is read by itself, as what one leaves another does
 * not use, and closed again. */
#define _GNU_SOURCE
#include "check.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

struct taking {
    struct mt_check_answer *answer;
    struct mt_inputs *inputs;
    const struct mt_check_choice *choice;
};

static int answer_notes(struct mt_check_answer *a, struct mt_source *s)
{
    size_t n;
    int known;
    const char *const *notes = mt_source_notes(s, &n, &known);
    if (mt_grow((void *)&a->notes, &a->note_room, a->nnotes + n, sizeof *a->notes) != 0)
        return -1;
    for (size_t i = 0; i < n; i++, a->nnotes++)
        if (!(a->notes[a->nnotes] = mt_findings_text(&a->findings, notes[i], strlen(notes[i]))))
            return -1;
    return 0;
}

/* Have threads of this launch something between them of which there is no record? */
static int answer_blind(const struct mt_launch_event *l)
{
    return l->traced && !*l->library && !l->barriers && l->block[0] * l->block[1] * l->block[2] > 1;
}

/* Barriers and shared memory are in a trace only where they were asked for. */
static void answer_spaces(struct mt_check_answer *a, const struct mt_source *s)
{
    int any = 0, blind = 0;
    for (size_t i = 0; i < mt_source_inputs(s); i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        a->left |= c && !c->has_end;
        for (size_t k = 0; c && k < c->nlaunches && !any; k++) {
            any = c->launches[k].others != 0;
            blind |= answer_blind(&c->launches[k]);
        }
    }
    a->blind |= blind && !any;
}

static int answer_add(struct mt_check_answer *a, struct mt_source *s, const struct mt_findings *f,
                      int complete)
{
    const struct mt_companion *c = mt_source_inputs(s) ? mt_source_companion(s, 0) : NULL;
    const char *program = c ? c->program : "";
    a->complete = !complete || !a->complete ? 0 : complete < a->complete ? complete : a->complete;
    answer_spaces(a, s);
    if (!*a->program && !(a->program = mt_findings_text(&a->findings, program, strlen(program))))
        return -1;
    return answer_notes(a, s) == 0 ? mt_findings_take(&a->findings, f) : -1;
}

void mt_check_answer_init(struct mt_check_answer *a)
{
    *a = (struct mt_check_answer){.program = "", .complete = 1};
}

void mt_check_answer_free(struct mt_check_answer *a)
{
    mt_findings_free(&a->findings);
    free((void *)a->notes);
}

int mt_check_answer_read(struct mt_check_answer *a, struct mt_inputs *in,
                         const struct mt_check_choice *choice, int ran)
{
    struct mt_findings found = {0};
    int code, complete = 0;
    struct mt_source *s = mt_inputs_source(in, &code);
    if (s)
        code = mt_check_read(s, choice, ran, &found, &complete);
    if (s && (code == 0 || code == MT_EXIT_INPUT) && answer_add(a, s, &found, complete) != 0)
        code = mt_cli_fail("no memory for the findings");
    mt_findings_free(&found);
    mt_source_close(s);
    return code;
}

static int answer_run(void *arg, const char *const *paths, size_t n)
{
    struct taking *t = arg;
    t->inputs->paths = paths;
    t->inputs->npaths = n;
    int code = mt_check_answer_read(t->answer, t->inputs, t->choice, 1);
    t->inputs->npaths = 0;
    return code;
}

int mt_check_answer_folder(struct mt_check_answer *a, const char *folder, struct mt_inputs *in,
                           const struct mt_check_choice *choice)
{
    struct taking t = {a, in, choice};
    return mt_inputs_runs(folder, in->flags, answer_run, &t);
}
