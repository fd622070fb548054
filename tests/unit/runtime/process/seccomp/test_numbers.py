import re
from pathlib import Path

import pytest

from pykubelet.runtime.process.seccomp.numbers import X32_BIT, all_names, numbers_of, spoken


@pytest.mark.parametrize(
    ("architecture", "header"), [("x86_64", "unistd_64.h"), ("x86", "unistd_32.h"), ("x32", "unistd_x32.h")]
)
def test_the_numbers_are_the_kernels(architecture: str, header: str) -> None:
    found = next(Path("/usr/include").glob(f"x86_64-*/asm/{header}"), None)
    if found is None:
        pytest.skip("this machine has no headers of the kernel")
    pattern = r"#define __NR_(\w+) \(?(?:__X32_SYSCALL_BIT \+ )?(\d+)\)?$"
    theirs = {name: int(number) for name, number in re.findall(pattern, found.read_text(), re.MULTILINE)}
    ours = numbers_of(architecture)
    bit = X32_BIT if architecture == "x32" else 0
    assert len(theirs) > 300
    assert {name: ours.get(name) for name in theirs} == {name: number | bit for name, number in theirs.items()}


def test_a_name_may_belong_to_another_architecture() -> None:
    assert "s390_runtime_instr" in all_names()
    assert not any("s390_runtime_instr" in numbers_of(each.name) for each in (*spoken("x86_64"), *spoken("aarch64")))


def test_a_machine_that_is_not_known_speaks_nothing() -> None:
    assert spoken("riscv64") == ()
