// RUN: %host %s -Xclang -verify -o /dev/null
// RUN: not %host %s -Werror -o /dev/null 2>&1 | FileCheck %s
// CHECK: pragma-bad.cu:[[@LINE+1]]:17: error: memtrace: expected '#pragma memtrace on' or '#pragma memtrace off'; pragma ignored
#pragma memtrace
// expected-warning@-1 {{memtrace: expected '#pragma memtrace on' or '#pragma memtrace off'; pragma ignored}}
#pragma memtrace maybe // expected-warning {{memtrace: expected '#pragma memtrace on' or '#pragma memtrace off'}}
#pragma memtrace 3 // expected-warning {{memtrace: expected '#pragma memtrace on' or '#pragma memtrace off'}}
#pragma memtrace on // expected-warning {{memtrace: tracing is on already in this file}}
#pragma memtrace off now // expected-warning {{memtrace: extra words after '#pragma memtrace off' ignored}}
#pragma memtrace off // expected-warning {{memtrace: tracing is off already, since line 9; regions do not nest}}
#pragma memtrace on
#pragma memtrace on // expected-warning {{memtrace: tracing is on already in this file}}
_Pragma("memtrace off") // not closed: to the end of the file, which is fine
int memtrace, on, off; // the words are no keywords
#define off on
