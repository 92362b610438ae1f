/* A comm.json as an input of commands. */
#ifndef MT_CLI_COMM_FILE_H
#define MT_CLI_COMM_FILE_H
#include <jansson.h>

/* Parses the file ("-": standard input). Returns it, to be freed by json_decref, or NULL after a message,
 * with the exit code in *code. */
json_t *mt_comm_file(const char *path, int *code);
/* Returns MT_EXIT_OK, or MT_EXIT_INPUT if the file says that the trace was incomplete. */
int mt_comm_file_complete(const json_t *file, int *complete);
#endif
