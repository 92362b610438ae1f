/* Names as nvcc 13.0 and clang 19 made them (nm, -ptx) of sources whose names are beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/source_name.h"

#define NV "__nv_static_23__5796c1c6_6_lam_cu_main_"
#define HASH "3e8c347f608d5d5e"

static const struct {
    const char *symbol, *wanted; /* NULL: no such name */
} rows[] = {
    {NV "_Z3hidPi", "hid(int*)"},
    {"__nv_static_27__d88b0b97_6_31a_cu_109353b2__Z3hidPi", "hid(int*)"},
    {NV "_ZN34_GLOBAL__N__5796c1c6_6_lam_cu_main4deep4kernEPi", "(anonymous namespace)::deep::kern(int*)"},
    {"_ZN34_GLOBAL__N__5796c1c6_6_lam_cu_main4deep4kernEPi", "(anonymous namespace)::deep::kern(int*)"},
    {NV "_ZN32_INTERNAL_5796c1c6_6_lam_cu_main34_GLOBAL__N__5796c1c6_6_lam_cu_main4deep3ownE",
     "(anonymous namespace)::deep::own"},
    {NV "hidden", "hidden"},
    {NV "_Z4tmplILi3EEvPi", "void tmpl<3>(int*)"},
    {"_ZL3hidPi__intern__c0e500b5f5fc16a9", "hid(int*)"},
    {"_ZL3hidPi.intern." HASH, "hid(int*)"},
    {"_ZL6hidden__static__" HASH, "hidden"},
    {"_ZN12_GLOBAL__N_14deep4kernEPi__intern__1a2b_c0e500b5", "(anonymous namespace)::deep::kern(int*)"},
    {"_ZL4tmplILi3EEvPi__intern__" HASH, "void tmpl<3>(int*)"},
    {"_Z4eachIZ4mainEUliE_EvT___intern__" HASH, "void each<main::'lambda'(int)>(main::'lambda'(int))"},
    {"_Z4eachI1WIZN1C1mEPiEUliE1_EEvT_",
     "void each<W<C::m(int*)::'lambda1'(int)>>(W<C::m(int*)::'lambda1'(int)>)"},
    {"_Z4eachI17__nv_dl_wrapper_tI11__nv_dl_tagIPFivEXadL_Z4mainEELj1EEJPiEEEvT_",
     "void each<main::'lambda'>(main::'lambda')"},
    {"_Z4eachI1WI18__nv_hdl_wrapper_tILb0ELb0ELb0E11__nv_dl_tagIM1CFvPiEXadL_ZNS3_1mES4_EELj2EEFviEJS4_"
     "EEEEvT_",
     "void each<W<C::m::'lambda0'>>(W<C::m::'lambda0'>)"},
    {"_Z4eachI17__nv_dl_wrapper_tI11__nv_dl_tagIPFvPiEXadL_Z5otherS2_EELj12EEJS2_iEEEvT_i",
     "void each<other(int*)::'lambda10'>(other(int*)::'lambda10', int)"},
    /* the source's own */
    {"hid", NULL},
    {"__nv_static_", NULL},
    {"__nv_static_99__x_hid", NULL},
    {"__nv_static_18446744073709551615__x_hid", NULL},
    {"step__static__1", NULL},
    {"step__intern__", NULL},
    {"__intern__" HASH, NULL},
    {"_Z14step__intern__Pi", "step__intern__(int*)"},
    {"_Z3fooN2ns10_INTERNAL_E", "foo(ns::_INTERNAL_)"},
    {"", NULL},
};

static void names_rows(void **state)
{
    assert_non_null(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL));
    mt_demangle_prepare();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = mt_demangle(rows[i].symbol);
        assert_string_equal(text ? text : "none", rows[i].wanted ? rows[i].wanted : "none");
        free(text);
    }
}

static void names_plain(void **state)
{
    static const struct {
        const char *text, *wanted;
    } plain[] = {
        {"one(int*, int const*, int)", "one"},
        {"void two<float>(float*, float const*)", "two<float>"},
        {"int ns::deep<int, (ns::E)1>(int const*, int)", "ns::deep<int, (ns::E)1>"},
        {"(anonymous namespace)::hidden(int*)", "(anonymous namespace)::hidden"},
        {"void (anonymous namespace)::hidden<int>(int*)", "(anonymous namespace)::hidden<int>"},
        {"S::get(int) const &", "S::get"},
        {"main::'lambda'(int)::operator()(int) const", "main::'lambda'(int)::operator()"},
        {"bool operator< <int>(S<int>, int)", "operator< <int>"},
        {"S::operator int() const", "S::operator int"},
        {"S::operator->() const", "S::operator->"},
        {"std::enable_if<(1)>(2), void>::type f<int>(int)", "f<int>"},
        {"std::map<int, char const*>* make<int>(char (*)(int))", "make<int>"},
        {"my_operator(int)", "my_operator"},
        {"void each<4, (anonymous namespace)::f(int*)::'lambda'()::operator()() const::'lambda5'(float), "
         "A<char*, 2ul>, false>(int)",
         "each<4, (anonymous namespace)::f(int*)::'lambda'()::operator()() const::'lambda5'(float), A<char*, "
         "2ul>, false>"},
        {"void k<decltype(f()->x), 3>::operator()(int) const", "k<decltype(f()->x), 3>::operator()"},
        {"f", "f"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        char *text = strdup(plain[i].text);
        mt_source_function(text);
        assert_string_equal(text, plain[i].wanted);
        free(text);
    }
    char *name = mt_demangle_name("_ZN2ns4deepIiEET_PKS1_i"), *same = mt_demangle_name("plain_c_name");
    assert_string_equal(name, "ns::deep<int>");
    assert_string_equal(same, "plain_c_name");
    free(name);
    free(same);
}

static void files_rows(void **state)
{
    static const struct {
        const char *folder, *file, *wanted;
    } files[] = {
        {"/a/b", "c.h", "/a/b/c.h"},
        {"/a/b", "/c.h", "/c.h"},
        {"/a/b/", "./../c.h", "/a/c.h"},
        {"", "c.h", "c.h"},
        {"", "../c.h", "../c.h"},
        {"", "../../c.h", "../../c.h"},
        {"", "a/../c.h", "c.h"},
        {"", "/../c.h", "/c.h"},
        {"/usr/local/cuda/bin/../include", "x.h", "/usr/local/cuda/include/x.h"},
        {"a", "../../c.h", "../c.h"},
        {"/", "c.h", "/c.h"},
        {"", "", ""},
        {"/a//b", "c//d.h", "/a/b/c/d.h"},
    };
    char out[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        mt_source_full(out, sizeof out, files[i].folder, files[i].file);
        assert_string_equal(out, files[i].wanted);
    }
    for (size_t room = 1; room < 12; room++) {
        memset(out, 'x', sizeof out);
        mt_source_full(out, room, "/long/folder", "../file.h");
        assert_true(strlen(out) < room);
    }
    assert_true(mt_is_toolchain_file("/opt/no/such/cuda-12.4/targets/x86_64-linux/include/cub/x.cuh"));
    assert_false(mt_is_toolchain_file("/no/such/folder/x.cu"));
}

/* Cut off, and with brackets in the wrong places: nothing is written past the end, nothing grows. */
static void names_damaged(void **state)
{
    static const char whole[] =
        "void each<__nv_hdl_wrapper_t<false, __nv_dl_tag<void (C::*)(int*), &(C::m(int*)), 2u>, void (int)> "
        ">(main::{lambda(int)#12}, _INTERNAL_1_cu::x, {lambda({lambda()#1})#2})";
    static const char put[] = "<>(){}#,&_ 9";
    for (size_t n = 0; n < sizeof whole; n++)
        for (size_t at = 0; at <= n; at++)
            for (const char *c = put; *c; c++) {
                char *text = strndup(whole, n);
                text[at < n ? at : 0] = n ? *c : 0;
                mt_source_text(text);
                assert_true(strlen(text) <= n);
                mt_source_function(text);
                assert_true(strlen(text) <= n);
                free(text);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_rows), cmocka_unit_test(names_plain),
                                       cmocka_unit_test(files_rows), cmocka_unit_test(names_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
