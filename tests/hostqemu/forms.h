/* All forms of instructions, by their bytes: prefixes, maps of opcodes, ways of naming operands. */
#ifndef MT_TEST_FORMS_H
#define MT_TEST_FORMS_H
/* Calls f with 15 bytes for each; most are not an instruction. */
void forms_each(void (*f)(const unsigned char bytes[15]));
#endif
