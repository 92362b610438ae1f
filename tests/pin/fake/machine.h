/* The machine behind the stand-in: images, instructions and threads that a test makes up. */
#ifndef MACHINE_H
#define MACHINE_H
#include "pin.H"
#include <atomic>
#include <functional>

struct fake_arg {
    int kind;
    ADDRINT value;
};
struct fake_args {
    std::vector<fake_arg> list;
};
struct fake_call {
    IPOINT where;
    AFUNPTR f;
    BOOL is_if, is_then;
    std::vector<fake_arg> args;
};
struct fake_memop {
    BOOL reads, writes;
    UINT32 size;
};
struct fake_ins {
    ADDRINT address;
    std::string text;
    std::vector<fake_memop> memops;
    std::vector<REG> reads, writes;
    INT32 opcode = XED_ICLASS_OTHER;
    BOOL ret = FALSE, branch = FALSE, nop = FALSE, scattered = FALSE, odd_size = FALSE;
    BOOL neither = FALSE; /* no place after it */
    std::atomic<bool> translated{false};
    std::vector<fake_call> calls;
};
struct fake_rtn {
    ADDRINT address;
    std::string name;
    std::vector<fake_call> calls;
    RTN next = nullptr;
};
struct fake_img {
    ADDRINT low, high;
    BOOL main;
    RTN first = nullptr;
};

struct cpu {
    THREADID tid;
    CONTEXT c;
    ADDRINT ea[3], odd_size, args[3], back;
    IMULTI_ELEMENT_OPERAND elements;
};

/* Loads an image: its routines get their calls. */
void machine_load(IMG img);
/* Runs `body` as a thread of the program, here and now. */
void machine_thread(THREADID tid, const std::function<void(cpu &)> &body);
/* Executes: calls before, what the instruction does, calls after. */
void machine_execute(cpu &p, INS ins, const std::function<void()> &real);
/* Executes as far as the instruction itself, which faults: a signal handler would come next. */
void machine_fault(cpu &p, INS ins);
/* The instruction is translated anew when it is executed next. */
void machine_forget(INS ins);
/* A call of the routine from `back`, with args: what is at its entry is done, the stack pointer moves. */
void machine_enter(cpu &p, RTN rtn, ADDRINT a0 = 0, ADDRINT a1 = 0, ADDRINT a2 = 0);
/* Returns with a value from the innermost routine. */
void machine_return(cpu &p, ADDRINT value);
void machine_syscall(cpu &p, ADDRINT number, ADDRINT a0, ADDRINT a1, ADDRINT a2, ADDRINT result);
void machine_signal(cpu &p, INT32 signal);
void machine_context_change(cpu &p);
void machine_fork_parent(cpu &p);
void machine_fork_child(cpu &p);

/* The test's. */
void program(int argc, char **argv);
#endif
