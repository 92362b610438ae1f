/* memtrace extract, as one process or as a member of several. */
#ifndef MT_CLI_EXTRACT_H
#define MT_CLI_EXTRACT_H
struct mt_session;

/* Runs the command, as a single process (NULL) or as a member of several. */
int mt_extract_run(int argc, char **argv, const struct mt_session *session);
#endif
