"""Becomes `valgrind --tool=callgrind` on a program.

In: the file for callgrind's figures, the program, its arguments. Out: that program under valgrind, in this process.

valgrind takes the vDSO away from the program and leaves it out of the auxiliary vector that it shows in /proc/self/auxv.
But prctl(PR_GET_AUXV), which rustix asks first and valgrind 3.19 does not know, still has the kernel's own vector: the
program then reads memory that is gone. So a filter answers this one question as a kernel before 6.4 does: EINVAL.
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PR_GET_AUXV = 0x41555856
PRCTL = {"x86_64": 157, "aarch64": 167}
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
# Loads of struct seccomp_data: number of the call, low half of its first argument.
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
CALL, ARGUMENT = 0, 16


def refuse_auxv():
    program = [
        (LOAD, 0, 0, CALL),
        (JUMP_EQUAL, 0, 3, PRCTL[os.uname().machine]),
        (LOAD, 0, 0, ARGUMENT),
        (JUMP_EQUAL, 0, 1, PR_GET_AUXV),
        (RETURN, 0, 0, RET_ERRNO | errno.EINVAL),
        (RETURN, 0, 0, RET_ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filter_program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program)):
        if libc.prctl(*words):
            sys.exit(f"set a filter for valgrind's sake: {os.strerror(ctypes.get_errno())}")


if os.uname().machine in PRCTL:
    refuse_auxv()
out, *words = sys.argv[1:]
os.execvp("valgrind", ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *words])
