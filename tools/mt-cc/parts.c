/* Commands that take clang several times, over objects in a folder of their own. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "device_link.h"
#include "mt-cc.h"

static void parts_clean(const struct request *r, const char *folder, const struct words *objects)
{
    if (r->show) {
        return;
    }
    for (size_t i = 0; i < objects->count; i++) {
        unlink(objects->word[i]);
    }
    rmdir(folder);
}

int mt_cc_run_languages(const struct request *r)
{
    struct words objects = {0}, middle, line;
    char *folder = r->links ? mt_cc_make_folder(r) : NULL;
    int code = r->links && !folder;
    for (size_t i = 0; code == 0 && i < (r->links ? r->c_files.count : 1); i++) {
        if (r->links) {
            mt_words_addf(&objects, "%s/%zu.o", folder, i);
        }
        middle = mt_cc_languages_c(r, i, r->links ? objects.word[i] : NULL);
        line = mt_cc_complete(r, &middle, 0);
        code = mt_cc_run_line(r, &line, -1);
    }
    if (code == 0) {
        middle = mt_cc_languages_rest(r, r->links ? &objects : NULL);
        line = mt_cc_complete(r, &middle, r->links);
        code = mt_cc_run_line(r, &line, -1);
    }
    if (folder) {
        parts_clean(r, folder, &objects);
    }
    return code;
}

/* Each source into an object, whose names `objects` gets. */
static int compile_sources(const struct request *r, const char *folder, struct words *objects)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < r->sources.count; i++) {
        mt_words_addf(objects, "%s/%zu.o", folder, i);
        struct words middle = mt_cc_languages_one(r, r->sources.word[i], objects->word[i]);
        struct words line = mt_cc_complete(r, &middle, 0);
        code = mt_cc_run_line(r, &line, -1);
    }
    return code;
}

/* --show: the objects are not there to be asked. */
static void parts_suppose(const struct request *r, const struct words *objects, struct words *inputs,
                          struct device_code *code)
{
    if (!r->show || objects->count == 0) {
        return;
    }
    for (size_t i = 0; i < objects->count; i++) {
        mt_words_add(inputs, objects->word[i]);
    }
    memset(code->arch, 0, sizeof code->arch);
    code->arch[90] = r->archs.count == 0;
    for (size_t i = 0; i < r->archs.count; i++) {
        int arch = atoi(r->archs.word[i] + strlen("sm_"));
        code->arch[arch < MT_ARCHS ? arch : 0] = 1;
    }
}

/* The value of -o among the words, or what nvcc takes. */
static const char *dlink_output(const struct request *r)
{
    for (size_t i = 0; i < r->user.count; i++) {
        if (strncmp(r->user.word[i], "-o", 2) == 0) {
            return r->user.word[i][2]      ? r->user.word[i] + 2
                   : i + 1 < r->user.count ? r->user.word[i + 1]
                                           : NULL;
        }
    }
    return "a_dlink.o";
}

/* The program's link, with the object that the device link made. */
static int link_program(const struct request *r, const struct words *words, const char *made, int all_objects)
{
    struct request part = *r;
    struct words middle = {0}, line;
    if (all_objects) {
        part.compiles = part.cuda = 0;
        part.language = NULL;
    }
    if (made) {
        mt_words_add(&middle, made);
    }
    mt_words_append(&middle, words);
    line = mt_cc_complete(&part, &middle, 1);
    return mt_cc_run_line(r, &line, -1);
}

int mt_cc_run_device_link(const struct request *r)
{
    struct words objects = {0}, words = r->user, inputs;
    struct device_code device = {0};
    char *folder = mt_cc_make_folder(r);
    if (!folder) {
        return 1;
    }
    const char *object = r->dlink ? dlink_output(r) : mt_words_text("%s/link.o", folder);
    int made = 0, code = 0, apart = (r->rdc && r->sources.count > 0) || mt_cc_languages_mixed(r);
    if (apart) {
        code = compile_sources(r, folder, &objects);
        words = mt_cc_languages_linked(r, &objects);
    }
    if (code == 0) {
        inputs = mt_cc_device_code_inputs(&words, &device);
        parts_suppose(r, &objects, &inputs, &device);
        code = mt_cc_device_link(r, &inputs, &device, folder, object, &made);
    }
    if (code == 0 && r->dlink && !made) {
        code = mt_cc_device_link_nothing(r, folder, object);
    } else if (code == 0 && !r->dlink) {
        code = link_program(r, &words, made ? object : NULL, apart || r->sources.count == 0);
    }
    mt_cc_device_link_clean(folder);
    if (made && !r->dlink) {
        mt_words_add(&objects, object);
    }
    parts_clean(r, folder, &objects);
    return code;
}
