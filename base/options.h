/* Settings of the runtime, from environment variables as the process began with them or as the program sets
 * them before it first uses CUDA. The table is options.def. */
#ifndef MT_COMMON_OPTIONS_H
#define MT_COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Environment of this process. The program may clear or overwrite it before it first uses CUDA, so a copy is
 * kept. */

/* Works as secure_getenv. For a variable that the program has removed or emptied, returns the initial value,
 * valid for the life of the process. */
const char *mt_environment_get(const char *name);
/* Returns the initial environment: "NAME=value" strings, NULL-terminated. */
char *const *mt_environment(void);

enum mt_option_format { MT_FORMAT_RAW, MT_FORMAT_COMPACT };
enum mt_option_check { MT_CHECK_OFF, MT_CHECK_ON, MT_CHECK_STOP, MT_CHECK_STRICT, MT_CHECK_STRICT_STOP };
enum mt_option_engine { MT_ENGINE_NONE, MT_ENGINE_INJECT, MT_ENGINE_PRELOAD };
enum mt_option_device { MT_DEVICE_AUTO, MT_DEVICE_GPU, MT_DEVICE_CPU };

struct mt_options {
#define MT_FIELD_STRING(f) const char *f;
#define MT_FIELD_NUMBER(f) uint64_t f;
#define MT_FIELD_CHOICE(f) unsigned f;
#define MT_FIELD_SWITCH(f) unsigned f;
#define MT_OPTION(kind, field, name, def, values, help) MT_FIELD_##kind(field)
#include "options.def"
};

/* Returns the settings of this process; strings live as long as the process. Thread-safe. A bad value is
 * reported in one line on stderr and the default is used. */
const struct mt_options *mt_options(void);

/* Parses the settings. `get` replaces getenv; `complain` is called with one sentence per bad value. */
void mt_options_parse(struct mt_options *o, const char *(*get)(const char *name, void *ctx),
                      void (*complain)(const char *line, void *ctx), void *ctx);

#endif
