#pragma once
enum { N = 64 };
extern __managed__ int theirs[N];
__device__ int read_theirs(int i);
int *address_of_theirs();
int add_to_hidden(int by);
