/* Programs that a command runs and waits for. */
#ifndef MT_CLI_CHILD_H
#define MT_CLI_CHILD_H

struct mt_program_run {
    const char *path;
    char *const *argv;
    char *const *env; /* "NAME=value" strings to add to the environment, NULL-terminated */
    int why;          /* errno value if the program could not be run, else 0 */
    int passed;       /* last signal forwarded that usually ends programs */
    int ended;        /* signal that ended the program, or 0 */
};

/* Runs a program and waits for it. Signals sent to this process are forwarded; signals of a terminal reach
 * the whole foreground anyway. If this process is killed, so is the program. Returns the exit code as a shell
 * reports it, or -1 with `why`. */
int mt_child_run(struct mt_program_run *c);
#endif
