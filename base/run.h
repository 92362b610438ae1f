/* A program that a command runs and waits for. */
#ifndef MT_CLI_CHILD_H
#define MT_CLI_CHILD_H

struct mt_program_run {
    const char *path;
    char *const *argv;
    char *const *env; /* NAME=value, put into its environment; NULL ends them */
    int why;          /* errno value when it could not be run, else 0 */
    int passed;       /* the last signal that ends programs as a rule, and that we passed on */
    int ended;        /* the signal that ended it, or 0 */
};

/* Runs it and waits. Signals that are sent to this process go to the program, and what a terminal sends to
 * all of the foreground reaches it anyway; when this process is killed, so is the program. Returns its exit
 * code as a shell has it, or -1 with `why`. */
int mt_child_run(struct mt_program_run *c);
#endif
