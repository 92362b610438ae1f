"""A kernel from PTX through the driver, with what Python has alone. 4 CTAs of 64 threads; those below 200 load a float and store it twice
as large: 200 loads and 200 stores of 4 bytes. The copies that follow are none of the kernel's."""
import ctypes
import struct

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .pred %p;
    .reg .f32 %f<3>;
    .reg .b32 %r<6>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [in];
    ld.param.u64 %d2, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p, %r5, %r1;
    @%p bra END;
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mul.wide.s32 %d3, %r5, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.f32 %f1, [%d4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%d5], %f2;
END:
    ret;
}
"""
N, CTAS, THREADS = 200, 4, 64
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        raise SystemExit(f"{name}: CUDA error {code}")


def main():
    device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"scale")
    host, size = struct.pack(f"{N}f", *range(N)), ctypes.c_size_t(4 * N)
    pointers = ctypes.c_uint64(), ctypes.c_uint64()
    for pointer in pointers:
        call("cuMemAlloc_v2", ctypes.byref(pointer), size)
    call("cuMemcpyHtoD_v2", pointers[0], host, size)
    values = (*pointers, ctypes.c_int(N))
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values))
    call("cuLaunchKernel", kernel, CTAS, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
    back = ctypes.create_string_buffer(4 * N)
    call("cuMemcpyDtoH_v2", back, pointers[1], size)
    print(sum(struct.unpack(f"{N}f", back.raw)))  # 2 * (0 + … + 199)


main()
