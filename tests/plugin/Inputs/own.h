#pragma once
// A header of the program.
__device__ inline int own(int a) { return a * 3; }
