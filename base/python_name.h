/* Names of kernels that were compiled from Python. */
#ifndef MT_PYTHON_NAME_H
#define MT_PYTHON_NAME_H
#ifdef __cplusplus
extern "C" {
#endif

/* Turns a demangled name of Numba's, with or without parameters, into the Python function's, in place:
 * "__main__::outer::_3clocals_3e::k[abi:v1][abi:cw51...]" becomes "outer.<locals>.k". Functions of other
 * modules keep the module's name before a dot. Returns 1, or 0 with the text unchanged if it is not Numba's.
 */
int mt_python_name(char *text);

#ifdef __cplusplus
}
#endif
#endif
