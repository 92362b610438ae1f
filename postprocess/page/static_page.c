/* The frame of pages without a script. */
#include "static_page.h"
#include "report_files.h"
#include "output/dot/xml.h"

void mt_static_text(FILE *f, const char *open, const char *text, const char *close)
{
    fputs(open, f);
    mt_xml_text(f, text);
    fputs(close, f);
}

void mt_static_begin(FILE *f, const char *title, const char *look)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" "
          "href=\"data:,\">\n",
          f);
    mt_static_text(f, "<title>", title, "</title>\n<style>\n");
    fwrite(mt_report_versus_css, 1, (size_t)(mt_report_versus_css_end - mt_report_versus_css), f);
    fprintf(f, "</style></head><body><main%s%s%s>\n", *look ? " class=\"" : "", look, *look ? "\"" : "");
    mt_static_text(f, "<h1>", title, "</h1>\n");
}

void mt_static_end(FILE *f, const char *footer)
{
    fprintf(f, "<footer>%s</footer>\n</main></body></html>\n", footer);
}

void mt_static_bars(FILE *f, double a, double b)
{
    fprintf(f,
            "<td class=\"bars\" aria-hidden=\"true\"><i class=\"a\" style=\"width:%.1f%%\"></i>"
            "<i class=\"b\" style=\"width:%.1f%%\"></i></td>",
            a, b);
}
