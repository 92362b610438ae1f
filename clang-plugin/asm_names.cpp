/* Doubles the % of PTX names in asm with operands (%clusterid.x). nvcc accepts a single one, but clang takes
 * % for an operand, so files are changed before clang reads them. */
#include "plugin.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/PPCallbacks.h"

using namespace clang;

namespace
{
class Names
{
  public:
    Names(StringRef text, const LangOptions &lang)
        : text(text), lexer(SourceLocation(), lang, text.begin(), text.begin(), text.end())
    {
    }
    /* Returns the text with the missing % added; "" if none is missing. */
    std::string mended()
    {
        while (next())
            while (token.is(tok::raw_identifier) && is_asm(token.getRawIdentifier()))
                statement();
        std::string made;
        size_t from = 0;
        for (size_t at : places) {
            made += text.substr(from, at - from).str() + "%";
            from = at;
        }
        return places.empty() ? made : made + text.substr(from).str();
    }

  private:
    StringRef text;
    Lexer lexer;
    Token token;
    std::vector<size_t> places; /* offset of each such % */

    static bool is_asm(StringRef name)
    {
        return name == "asm" || name == "__asm" || name == "__asm__";
    }
    bool next()
    {
        lexer.LexFromRawLexer(token);
        return token.isNot(tok::eof);
    }
    /* Searches a string literal. %c0 and %[name] are operands, %= and %| are clang's own. */
    void literal(size_t from, StringRef word)
    {
        for (size_t i = 0; i + 2 < word.size(); i++) {
            if (word[i] != '%')
                continue;
            if (isAsciiIdentifierStart(word[i + 1]) && isAsciiIdentifierContinue(word[i + 2]) &&
                !isDigit(word[i + 2]))
                places.push_back(from + i);
            i++;
        }
    }
    /* Handles an asm statement from "asm" to the first colon; without a colon, % has no special meaning. */
    void statement()
    {
        std::vector<std::pair<size_t, StringRef>> literals;
        int depth = 0;
        while (next()) {
            if (token.is(tok::l_paren))
                depth++;
            else if (token.is(tok::r_paren) && --depth <= 0)
                return;
            else if (!depth && token.isNot(tok::raw_identifier))
                return;
            else if (token.isOneOf(tok::colon, tok::coloncolon))
                break;
            else if (tok::isStringLiteral(token.getKind()))
                literals.emplace_back(token.getLiteralData() - text.data(),
                                      StringRef(token.getLiteralData(), token.getLength()));
        }
        for (auto &[at, word] : literals)
            literal(at, word);
    }
};

void mend(const CompilerInstance &compiler, FileEntryRef file)
{
    SourceManager &sources = compiler.getSourceManager();
    auto buffer = sources.isFileOverridden(file) ? std::nullopt : sources.getMemoryBufferForFileOrNone(file);
    if (!buffer || !buffer->getBuffer().contains("asm"))
        return;
    std::string made = Names(buffer->getBuffer(), compiler.getLangOpts()).mended();
    if (!made.empty())
        sources.overrideFileContents(file, llvm::MemoryBuffer::getMemBufferCopy(made, file.getName()));
}

/* Changes each header of the program before clang enters it. */
class Includes : public PPCallbacks
{
  public:
    explicit Includes(const CompilerInstance &c) : compiler(c)
    {
    }
    void InclusionDirective(SourceLocation, const Token &, StringRef, bool, CharSourceRange,
                            OptionalFileEntryRef file, StringRef, StringRef, const Module *, bool,
                            SrcMgr::CharacteristicKind kind) override
    {
        if (file && !SrcMgr::isSystem(kind))
            mend(compiler, *file);
    }

  private:
    const CompilerInstance &compiler;
};
} // namespace

void mt::mend_asm_names(CompilerInstance &compiler)
{
    SourceManager &sources = compiler.getSourceManager();
    if (auto file = sources.getFileEntryRefForID(sources.getMainFileID()))
        mend(compiler, *file);
    compiler.getPreprocessor().addPPCallbacks(std::make_unique<Includes>(compiler));
}
