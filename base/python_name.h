/* Names of kernels that come out of Python. */
#ifndef MT_PYTHON_NAME_H
#define MT_PYTHON_NAME_H
#ifdef __cplusplus
extern "C" {
#endif

/* A demangled name of Numba's, with or without parameters, becomes the Python function's, in place:
 * "__main__::outer::_3clocals_3e::k[abi:v1][abi:cw51...]" is "outer.<locals>.k", and functions of other
 * modules keep the module's name before a dot. 1, or 0: it is not Numba's, and stays. */
int mt_python_name(char *text);

#ifdef __cplusplus
}
#endif
#endif
