/* Whom memtrace takes code and text from: a tree of folders, and for each path what the rule of ssh and sudo
 * says of it, by hand. */
#define _GNU_SOURCE
#include "util.h"
#include "base/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

enum { NOBODY = 65534 };

static void folder(const char *name, mode_t mode, uid_t owner)
{
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(chmod(name, mode), 0);
    if (owner)
        assert_int_equal(chown(name, owner, owner), 0);
}

static void file(const char *name, mode_t mode, uid_t owner)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    if (owner)
        assert_int_equal(fchown(fd, owner, owner), 0);
    close(fd);
}

/* What is said of it; "": it is trusted. */
static const char *verdict(const char *path, enum mt_trust what)
{
    static char why[PATH_MAX + 128];
    int fd = mt_trust_open(path, what, why, sizeof why), refused = fd < 0 && errno == EPERM;
    assert_true(fd < 0 || fcntl(fd, F_GETFD) & FD_CLOEXEC);
    if (fd >= 0)
        close(fd);
    assert_int_equal(fd < 0, *why != 0);
    return fd >= 0 ? "" : refused ? why : "error";
}

#define GOOD(path) assert_string_equal(verdict(path, MT_TRUST_FILE), "")
#define BAD(path, text) assert_non_null(strstr(verdict(path, MT_TRUST_FILE), text))

static void modes(void **state)
{
    assert_int_equal(chdir(fresh_dir()), 0);
    umask(0);
    folder("own", 0755, 0);
    folder("all", 0777, 0);
    folder("sticky", 01777, 0);
    folder("all/own", 0700, 0);
    folder("sticky/own", 0700, 0);
    folder("own/own", 0700, 0);
    file("own/file", 0644, 0);
    file("own/open", 0666, 0);
    file("sticky/file", 0600, 0);
    GOOD("own");
    GOOD("own/own");
    GOOD("own/file");
    GOOD("./own//own/../file");
    GOOD("sticky/own");
    GOOD("sticky/file");
    BAD("own/open", "own/open (its mode is 0666)");
    BAD("all", "all (its mode is 0777)");
    BAD("all/own", "all (its mode is 0777)");
    BAD("own/../all/own/../../own", "all (its mode is 0777)");
    assert_non_null(strstr(verdict("sticky", MT_TRUST_FILE), "sticky (its mode is 1777)"));
    assert_string_equal(verdict("own/nowhere", MT_TRUST_FILE), "error");
    assert_string_equal(verdict("own/file/below", MT_TRUST_FOLDER), "error");
    assert_string_equal(verdict("own/file", MT_TRUST_FOLDER), "error");
}

static void links(void **state)
{
    char long_path[2 * PATH_MAX];
    assert_int_equal(chdir(fresh_dir()), 0);
    umask(0);
    folder("own", 0700, 0);
    folder("all", 0777, 0);
    folder("all/own", 0700, 0);
    file("own/file", 0600, 0);
    assert_int_equal(symlink("own", "link"), 0);
    assert_int_equal(symlink("../all/own", "own/out"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("/dev/null", "whole"), 0);
    assert_int_equal(symlink("../own/file", "all/link"), 0);
    GOOD("link/file");
    BAD("link/out", "all (its mode is 0777)");
    BAD("whole", "/dev/null (its mode is 0666)");
    BAD("all/link", "all (its mode is 0777)");
    assert_string_equal(verdict("loop", MT_TRUST_FILE), "error");
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    assert_string_equal(verdict(long_path, MT_TRUST_FILE), "error");
    for (size_t i = 0; i + 300 < PATH_MAX; i += 300)
        memcpy(long_path + i, "/own/../", 8);
    assert_string_equal(verdict(long_path, MT_TRUST_FILE), "error");
}

static void made(void **state)
{
    struct stat st;
    assert_int_equal(chdir(fresh_dir()), 0);
    umask(0);
    folder("all", 0777, 0);
    assert_string_equal(verdict("a/b/c", MT_TRUST_FOLDER), "");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stat(i == 0 ? "a" : i == 1 ? "a/b" : "a/b/c", &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
    assert_non_null(strstr(verdict("all/d", MT_TRUST_FOLDER), "all (its mode is 0777)"));
    assert_int_equal(stat("all/d", &st), -1); /* nothing is made where it will not be used */
    assert_string_equal(verdict("/proc/none", MT_TRUST_FOLDER), "error");
}

/* Those of others: what only root can make. */
static void owners(void **state)
{
    char why[PATH_MAX + 128];
    if (geteuid() != 0)
        skip();
    assert_int_equal(chdir(fresh_dir()), 0);
    umask(0);
    folder("own", 0755, 0);
    folder("sticky", 01777, 0);
    folder("theirs", 0755, NOBODY);
    folder("theirs/own", 0700, 0);
    folder("sticky/theirs", 0700, NOBODY);
    file("own/theirs", 0600, NOBODY);
    assert_int_equal(symlink("../own", "sticky/link"), 0);
    GOOD("sticky/link");
    assert_int_equal(lchown("sticky/link", NOBODY, NOBODY), 0);
    BAD("sticky/link", "sticky/link is a symbolic link of user 65534");
    BAD("sticky/link/", "sticky/link is a symbolic link of user 65534");
    BAD("theirs", "theirs belongs to user 65534");
    BAD("theirs/own", "theirs belongs to user 65534");
    BAD("sticky/theirs", "sticky/theirs belongs to user 65534");
    BAD("own/theirs", "own/theirs belongs to user 65534");
    int fd = open("own", O_RDONLY | O_DIRECTORY);
    assert_int_equal(mt_trust_contents(fd, why, sizeof why), -1);
    assert_non_null(strstr(why, "own/theirs belongs to user 65534"));
    assert_int_equal(unlink("own/theirs"), 0);
    assert_int_equal(mt_trust_contents(fd, why, sizeof why), 0);
    folder("own/a", 0700, 0);
    folder("own/a/b", 0700, 0);
    assert_int_equal(symlink("/dev/null", "own/a/b/link"), 0);
    assert_int_equal(mt_trust_contents(fd, why, sizeof why), 0);
    assert_int_equal(lchown("own/a/b/link", NOBODY, NOBODY), 0);
    assert_int_equal(mt_trust_contents(fd, why, sizeof why), -1);
    assert_non_null(strstr(why, "own/a/b/link is a symbolic link of user 65534"));
    close(fd);
}

/* Root's own group has nobody else in it on the systems that we know; nobody's number is another's. */
static void groups(void **state)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(chdir(fresh_dir()), 0);
    umask(0);
    folder("own", 0775, 0);
    folder("theirs", 0775, 0);
    assert_int_equal(chown("theirs", 0, NOBODY), 0);
    GOOD("own");
    BAD("theirs", "theirs (its mode is 0775)");
    /* an entry for user 65534: version 2; user, named user, group, mask, others */
    const unsigned list[] = {2,   7 << 16 | 1,  ~0u, 7 << 16 | 2,  NOBODY, 7 << 16 | 4,
                             ~0u, 7 << 16 | 16, ~0u, 5 << 16 | 32, ~0u};
    if (setxattr("own", "system.posix_acl_access", list, sizeof list, 0) == 0)
        BAD("own", "own (its mode is 0775)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes), cmocka_unit_test(links),
                                       cmocka_unit_test(made), cmocka_unit_test(owners),
                                       cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
