/* The files of postprocess/page/web/ and d3, as they are (report_files.S).
 * NAME_end is after the last byte. */
#ifndef MT_OUTPUT_REPORT_FILES_H
#define MT_OUTPUT_REPORT_FILES_H
#define MT_REPORT_FILE(name) extern const char mt_report_##name[], mt_report_##name##_end[]
MT_REPORT_FILE(html);
MT_REPORT_FILE(css);
MT_REPORT_FILE(js);
MT_REPORT_FILE(d3);
MT_REPORT_FILE(versus_css);
MT_REPORT_FILE(licence);
#undef MT_REPORT_FILE
#endif
