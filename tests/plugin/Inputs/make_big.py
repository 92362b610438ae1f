"""A kernel that calls one large static function with a constant: whether it is inlined, and what is known about its
argument, depends on who else refers to it: with 120 lines it is inlined when nobody else does, with 400 never."""
print("static __device__ int big(int *p, int *q, int s)\n{")
for i in range(120):
    print(f"    s += p[s & {i}] * q[(s >> {i % 7}) + {i}]; if (s > {i * 37}) p[{i}] = s; q[s % {i + 3}] ^= s;")
print("    return s;\n}\n__global__ void kernel(int *p, int *q)\n{\n    p[0] = big(p, q, 1);\n}")
