"""Write the numbers of system calls that filters need, from the table that libseccomp keeps of the kernel's own.

    python tools/generate_syscall_numbers.py path/to/libseccomp/src/syscalls.csv

The numbers never change; run it again when kernels have new calls that profiles name.
"""

import csv
import sys
from pathlib import Path

ARCHITECTURES = ("x86_64", "x32", "x86", "aarch64", "arm")
TARGET = Path("src/pykubelet/runtime/process/seccomp/syscalls.txt")


def main(source: str) -> None:
    with open(source, newline="") as file:
        heading, *rows = csv.reader(file)
    columns = [heading.index(each) for each in ARCHITECTURES]
    lines = [" ".join(("#", *ARCHITECTURES))]
    for row in sorted(rows):
        lines.append(" ".join((row[0], *("-" if row[each] == "PNR" else row[each] for each in columns))))
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {len(rows)} calls")


if __name__ == "__main__":
    main(*sys.argv[1:])
