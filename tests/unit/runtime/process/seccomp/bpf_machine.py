"""The kernel's side of a filter, in a few lines: it runs a program step by step over one system call."""

import struct

from pykubelet.runtime.process.seccomp import bpf


def answer(program: bytes, token: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    data = struct.pack("<IIQ6Q", number, token, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:  # every jump leads forward, so this ends
        operation, yes, no, operand = steps[at]
        at += 1
        match operation:
            case bpf.LOAD:
                (value,) = struct.unpack_from("<I", data, operand)
            case bpf.AND:
                value &= operand
            case bpf.JUMP:
                at += operand
            case bpf.IF_EQUAL:
                at += yes if value == operand else no
            case bpf.IF_GREATER:
                at += yes if value > operand else no
            case bpf.IF_GREATER_OR_EQUAL:
                at += yes if value >= operand else no
            case bpf.RETURN:
                return int(operand)
            case other:
                raise AssertionError(f"no such operation: {other:#x}")
