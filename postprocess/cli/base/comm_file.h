/* A comm.json as an input. */
#ifndef MT_CLI_COMM_FILE_H
#define MT_CLI_COMM_FILE_H
#include <jansson.h>

/* What is in the file ("-": standard input), to be given back by json_decref; NULL after saying why, with the
 * exit code in *code. */
json_t *mt_comm_file(const char *path, int *code);
/* MT_EXIT_OK, or MT_EXIT_INPUT where the file says that the trace was not complete. */
int mt_comm_file_complete(const json_t *file, int *complete);
#endif
