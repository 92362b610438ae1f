/* Opens a comm.json. Checks its format mark; duplicate names in an object are errors. */
#include "comm_file.h"
#include "cli.h"
#include "kind.h"
#include <string.h>

json_t *mt_comm_file(const char *path, int *code)
{
    const int in = strcmp(path, "-") == 0;
    json_error_t error;
    if ((*code = in ? 0 : mt_kind_expect(path, NULL, 0, MT_KIND_COMM)) != 0)
        return NULL;
    json_t *o = in ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &error)
                   : json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!o) {
        mt_cli_say("%s: %s (line %d)", path, error.text, error.line);
        *code = error.line > 0 ? MT_EXIT_INPUT : MT_EXIT_USAGE;
        return NULL;
    }
    const char *format = json_string_value(json_object_get(o, "format"));
    const int is = format && strcmp(format, "memtrace-comm") == 0;
    const json_t *version = json_object_get(o, "version");
    if (is && (!version || json_integer_value(version) == 1))
        return o;
    *code = is ? mt_cli_refuse("%s: its version is not 1, the only known one", path)
               : mt_cli_refuse("%s: is not a comm.json: it has no \"format\": \"memtrace-comm\"", path);
    json_decref(o);
    return NULL;
}

int mt_comm_file_complete(const json_t *file, int *complete)
{
    const json_t *said = json_object_get(file, "complete");
    *complete = json_is_null(said) ? -1 : json_is_true(said);
    return *complete ? MT_EXIT_OK : MT_EXIT_INPUT;
}
