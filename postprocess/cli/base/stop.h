/* How a command ends before its time. */
#ifndef MT_CLI_STOP_H
#define MT_CLI_STOP_H
#include "cli.h"

/* 1: other processes stop at the same place, which the caller agrees on with them. There is no limit then. */
void mt_stop_together(int together);
/* A signal has come to a program that ran for the command, and ended it. What it left is read for a second or
 * so; then all is as after a signal of our own. */
void mt_stop_soon(int number);
/* A folder of our own that the end removes with the files in it; its name stays the caller's. NULL: none. */
void mt_stop_scratch(const char *folder);
/* Removes a folder and the files in it. */
void mt_stop_remove(const char *folder);
#endif
