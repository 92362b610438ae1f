/* Source places as traces have them: file, line, variable. */
#include "plugin.h"
#include <dlfcn.h>

namespace path = llvm::sys::path;

/* Applies -fdebug-prefix-map; the last option that matches wins. */
static void place_remap(const clang::CodeGenOptions &options, llvm::SmallVectorImpl<char> &name)
{
    for (auto it = options.DebugPrefixMap.rbegin(); it != options.DebugPrefixMap.rend(); ++it)
        if (path::replace_path_prefix(name, it->first, it->second))
            return;
}

std::string mt::traced_path(const clang::CompilerInstance &compiler, llvm::StringRef presumed)
{
    const clang::CodeGenOptions &options = compiler.getCodeGenOpts();
    llvm::SmallString<256> name(presumed);
    place_remap(options, name);
    if (path::is_relative(name)) {
        llvm::SmallString<256> whole(options.DebugCompilationDir);
        if (whole.empty() && llvm::sys::fs::current_path(whole))
            whole.clear();
        place_remap(options, whole);
        path::append(whole, name);
        name = whole;
    }
    path::remove_dots(name, true);
    return name.str().str();
}

std::string mt::own_path()
{
    static char here;
    Dl_info info;
    llvm::SmallString<256> real;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return "";
    if (llvm::sys::fs::real_path(info.dli_fname, real))
        return info.dli_fname;
    return real.str().str();
}
