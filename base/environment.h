/* The environment of this process: the program may clear it, or write over it, before it first uses CUDA. */
#ifndef MT_COMMON_ENVIRONMENT_H
#define MT_COMMON_ENVIRONMENT_H

/* As secure_getenv; of a variable that the program has removed or made empty, the value that the process
 * began with, which lives as long as it does. */
const char *mt_environment_get(const char *name);
/* What the process began with: "NAME=value", ended by NULL. */
char *const *mt_environment(void);
#endif
