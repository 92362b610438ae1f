#ifndef MULTI_H
#define MULTI_H
void run_first(const int *in, int *out, int n);
void run_second(const int *in, int *out, int n);
#endif
