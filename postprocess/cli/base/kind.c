/* Detects the kind of an input file by its first bytes. */
#define _GNU_SOURCE

#include "kind.h"
#include "cli.h"
#include "memtrace/host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Opens a comm.json. Checks its format mark; duplicate names in an object are errors ---- */

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

static const struct {
    const char *name, *readers;
} kinds[] = {
    [MT_KIND_TRACE] =
        {"a trace of kernels",
         "memtrace extract, memtrace report, memtrace graph, memtrace compare and memtrace dump read it"},
    [MT_KIND_CONTAINER] =
        {"a compact trace of host accesses",
         "memtrace dump, memtrace graph and memtrace compare read it, memtrace extract together "
         "with the traces of the same process, "
         "and memtrace convert makes it a text"},
    [MT_KIND_MAT] = {"a MAT text trace", "memtrace graph and memtrace compare read it"},
    [MT_KIND_ATOMIC] = {"a text trace of atomic mode",
                        "memtrace convert --order=time reads it, and simulators read what that writes"},
    [MT_KIND_INSN] = {"an instruction log",
                      "it is text for people; memtrace dump reads compact traces of insn mode"},
    [MT_KIND_COMPANION] = {"the companion file of a trace",
                           "it is read along with its trace, the file without .meta"},
    [MT_KIND_GRAPH] = {"a memory graph", "memtrace compare reads it"},
    [MT_KIND_COMM] = {"the output of mt-extract",
                      "memtrace report --from and memtrace query read it, jq and the like"},
    [MT_KIND_DATABASE] = {"an SQLite database",
                          "memtrace query reads those of memtrace extract, sqlite3 any"},
    [MT_KIND_OTHER] = {"a file of another kind", "traced programs write files MemTrace-pipe-N or .mtc"},
};

const char *mt_kind_name(enum mt_kind kind)
{
    return kinds[kind].name;
}

int mt_kind_refuse(const char *path, enum mt_kind kind, const char *wanted)
{
    return mt_cli_refuse("%s: is %s, not %s: %s", path, mt_kind_name(kind), wanted, kinds[kind].readers);
}

static size_t head_of(const char *path, char *out, size_t size)
{
    struct stat st;
    ssize_t n = -1;
    int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        n = pread(fd, out, size - 1, 0);
        close(fd);
    }
    out[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static size_t kind_digits(const char *p)
{
    return p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? 2 + strspn(p + 2, "0123456789abcdefABCDEF")
                                                       : strspn(p, "0123456789");
}

/* timestamp TAB thread TAB event */
static int is_atomic(const char *p)
{
    static const char *const events[] = {"m\t",         "tr\n",      "tf\n",          "fc\t",         "fr\t",
                                         "start_roi\n", "end_roi\n", "ctxt_change\n", "thread_sync\n"};
    size_t n = strspn(p, "0123456789");
    if (n == 0 || p[n] != '\t')
        return 0;
    p += n + 1;
    p += *p == '-';
    n = strspn(p, "0123456789");
    if (n == 0 || p[n] != '\t')
        return 0;
    p += n + 1;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strncmp(p, events[i], strlen(events[i])) == 0)
            return 1;
    return 0;
}

static int is_insn(const char *p)
{
    size_t n = strcspn(p, "\n");
    const char *reads = memmem(p, n, "\tR:", 3);
    return p[0] == '0' && p[1] == 'x' && reads && memmem(reads, n - (size_t)(reads - p), "\tW:", 3);
}

/* Returns 1 for seven numbers, or a number and file:line. */
static int is_mat(const char *p)
{
    size_t line = strcspn(p, "\n"), fields = 0;
    const char *end = p + line;
    while (fields < 7) {
        size_t n = kind_digits(p);
        if (n == 0 || p + n > end || (p[n] != ' ' && p[n] != '\t' && p[n] != '\n' && p[n] != '\r'))
            break;
        fields++;
        p += n;
        p += strspn(p, " \t\r");
    }
    if (fields == 7)
        return p == end;
    return fields == 1 && p < end && memchr(p, ':', (size_t)(end - p)) && p[-1] == ' ';
}

/* Returns the kind of files without a known text. A raw trace begins with a small number, a compact trace
 * with its magic, which may be truncated. */
static enum mt_kind kind_of_rest(const char *head, size_t n)
{
    uint64_t magic = MT_MTC_MAGIC;
    if (n == 0 || (unsigned char)head[0] < ' ' ||
        memcmp(head, &magic, n < sizeof magic ? n : sizeof magic) == 0)
        return MT_KIND_TRACE;
    return MT_KIND_OTHER;
}

static enum mt_kind kind_of_text(const char *head, size_t n)
{
    if (n >= 16 && memcmp(head, "SQLite format 3", 16) == 0)
        return MT_KIND_DATABASE;
    if (n == 0 || memchr(head, 0, n))
        return kind_of_rest(head, n);
    if (head[0] == '{' && strstr(head, "\"memtrace-comm\""))
        return MT_KIND_COMM;
    if (!memchr(head, '\n', n))
        return kind_of_rest(head, n);
    if (is_atomic(head))
        return MT_KIND_ATOMIC;
    if (is_insn(head))
        return MT_KIND_INSN;
    if (is_mat(head))
        return MT_KIND_MAT;
    if (head[0] == '{' && strstr(head, "\"ev\""))
        return MT_KIND_COMPANION;
    if (head[0] == '{' && strstr(head, "\"memtrace-graph\""))
        return MT_KIND_GRAPH;
    return kind_of_rest(head, n);
}

enum mt_kind mt_kind_of(const char *path)
{
    char head[4096];
    if (strcmp(path, "-") == 0)
        return MT_KIND_TRACE;
    if (mt_is_container(path))
        return mt_container_features(path) & MT_MTC_HAS_DEVICE ? MT_KIND_TRACE : MT_KIND_CONTAINER;
    return kind_of_text(head, head_of(path, head, sizeof head));
}

enum mt_kind mt_kind_of_head(const char *head, size_t n)
{
    struct mt_mtc_head h = {0};
    memcpy(&h, head, n < sizeof h ? n : sizeof h);
    if (n >= sizeof h && h.magic == MT_MTC_MAGIC)
        return h.features & MT_MTC_HAS_DEVICE ? MT_KIND_TRACE : MT_KIND_CONTAINER;
    return kind_of_text(head, n);
}

/* Returns 1 if the head determines the kind: a compact trace by its magic, text by its first line; a raw
 * trace begins with a byte of neither. */
int mt_kind_is_clear(const char *head, size_t n)
{
    uint64_t magic = MT_MTC_MAGIC;
    if (n > 0 && memcmp(head, &magic, n < sizeof magic ? n : sizeof magic) == 0)
        return n >= sizeof(struct mt_mtc_head);
    return n > 1024 || (n > 0 && ((unsigned char)head[0] < ' ' || memchr(head, '\n', n)));
}

int mt_kind_expect(const char *path, const char *head, size_t n, enum mt_kind wanted)
{
    char room[4096];
    const uint64_t magic = MT_MTC_MAGIC;
    if (!head) {
        n = head_of(path, room, sizeof room);
    } else {
        n = n < sizeof room ? n : sizeof room - 1;
        memcpy(room, head, n);
        room[n] = 0;
    }
    enum mt_kind kind = mt_kind_is_clear(room, n) ? mt_kind_of_head(room, n) : MT_KIND_OTHER;
    int sure = kind != MT_KIND_TRACE || room[0] == MT_RAW_RECORD_SIZE || memcmp(room, &magic, 1) == 0;
    return kind == wanted || kind == MT_KIND_OTHER || !sure ? 0
                                                            : mt_kind_refuse(path, kind, kinds[wanted].name);
}
