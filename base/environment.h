/* Environment of this process. The program may clear or overwrite it before it first uses CUDA, so a copy is
 * kept. */
#ifndef MT_COMMON_ENVIRONMENT_H
#define MT_COMMON_ENVIRONMENT_H

/* Works as secure_getenv. For a variable that the program has removed or emptied, returns the initial value,
 * valid for the life of the process. */
const char *mt_environment_get(const char *name);
/* Returns the initial environment: "NAME=value" strings, NULL-terminated. */
char *const *mt_environment(void);
#endif
