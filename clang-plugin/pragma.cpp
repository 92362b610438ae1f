/* #pragma memtrace on|off marks source lines that are not traced. A region belongs to its file: it does not
 * extend to included files, and ends with the file. */
#include "plugin.h"
#include <map>

using namespace clang;

namespace
{
struct Region {
    std::string file; /* name as #line gives it */
    unsigned first, last;
};
struct Regions {
    std::vector<Region> closed;
    /* Open regions by inclusion and name, since preprocessed input is one inclusion with text of many files.
     */
    std::map<std::pair<FileID, std::string>, Region> open;
};

Regions &regions()
{
    static Regions all;
    return all;
}

class Handler : public PragmaHandler
{
  public:
    Handler() : PragmaHandler("memtrace")
    {
    }
    void HandlePragma(Preprocessor &pp, PragmaIntroducer introducer, Token &name) override;
};
} // namespace

static void pragma_warn(Preprocessor &pp, SourceLocation at, StringRef text)
{
    if (!pp.getLangOpts().CUDAIsDevice) /* once per command, not once per side */
        mt::report(pp.getDiagnostics(), DiagnosticsEngine::Warning, at, text);
}

/* Writes the pragma to the output of -E, for the compiler that reads it. Clang's printer does not print
 * unknown pragmas, but it prints diagnostics pragmas with any name and keeps lines correct; its own words
 * become a comment. */
static void pragma_print(Preprocessor &pp, PragmaIntroducer introducer)
{
    std::string text = "memtrace ";
    for (Token token;;) {
        pp.LexUnexpandedToken(token);
        if (token.is(tok::eod))
            break;
        text += pp.getSpelling(token) + " ";
    }
    if (PPCallbacks *callbacks = pp.getPPCallbacks())
        callbacks->PragmaDiagnosticPush(introducer.Loc, text + "//");
}

void Handler::HandlePragma(Preprocessor &pp, PragmaIntroducer introducer, Token &name)
{
    if (pp.isPreprocessedOutput())
        return pragma_print(pp, introducer);
    Token word, rest;
    pp.LexUnexpandedToken(word);
    const IdentifierInfo *id = word.getIdentifierInfo();
    bool on = id && id->isStr("on"), off = id && id->isStr("off");
    if (!on && !off) {
        pragma_warn(pp, word.getLocation(),
                    "expected '#pragma memtrace on' or '#pragma memtrace off'; pragma ignored");
        if (word.isNot(tok::eod))
            pp.DiscardUntilEndOfDirective();
        return;
    }
    pp.LexUnexpandedToken(rest);
    if (rest.isNot(tok::eod)) {
        pragma_warn(pp, rest.getLocation(),
                    "extra words after '#pragma memtrace " + id->getName().str() + "' ignored");
        pp.DiscardUntilEndOfDirective();
    }
    const SourceManager &sources = pp.getSourceManager();
    SourceLocation at = sources.getExpansionLoc(name.getLocation());
    PresumedLoc place = sources.getPresumedLoc(at);
    if (place.isInvalid())
        return;
    auto &open = regions().open;
    auto file = std::make_pair(sources.getFileID(at), std::string(place.getFilename()));
    auto found = open.find(file);
    if (off && found != open.end()) {
        pragma_warn(pp, name.getLocation(),
                    "tracing is off already, since line " + std::to_string(found->second.first) +
                        "; regions do not nest");
    } else if (off) {
        open[file] = {place.getFilename(), place.getLine(), UINT32_MAX};
    } else if (found == open.end()) {
        pragma_warn(pp, name.getLocation(), "tracing is on already in this file");
    } else {
        found->second.last = place.getLine();
        regions().closed.push_back(found->second);
        open.erase(found);
    }
}

void mt::hand_over_regions(const CompilerInstance &compiler)
{
    Regions &all = regions();
    for (auto &entry : all.open)
        all.closed.push_back(entry.second);
    /* A header that is read several times gives equal regions each time. */
    auto key = [](const Region &r) { return std::tie(r.file, r.first, r.last); };
    llvm::sort(all.closed, [&](const Region &a, const Region &b) { return key(a) < key(b); });
    auto last = std::unique(all.closed.begin(), all.closed.end(),
                            [&](const Region &a, const Region &b) { return key(a) == key(b); });
    for (auto it = all.closed.begin(); it != last; ++it)
        mt_pass_option_off_range(traced_path(compiler, it->file).c_str(), it->first, it->last);
    all = Regions();
}

static PragmaHandlerRegistry::Add<Handler> register_pragma("memtrace", "#pragma memtrace on|off");
