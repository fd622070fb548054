"""The chains that other components look for, in a network of their own: nothing of this machine's is touched."""

import os
import shutil
import subprocess
import sys

import pytest

CODE = """
import subprocess
from pykubelet.host.iptables import _ensure_all, present_programs

programs = present_programs()
assert [each.rpartition("/")[2] for each in programs][:1] == ["iptables"], programs
for _ in range(2):  # a second time changes nothing
    assert [_ensure_all(program) for program in programs] == [""] * len(programs)
    print(subprocess.run([programs[0], "-S"], capture_output=True, text=True, check=True).stdout)
for table in ("mangle", "nat", "filter"):  # somebody clears everything
    subprocess.run([programs[0], "-t", table, "-F"], check=True)
    subprocess.run([programs[0], "-t", table, "-X"], check=True)
assert _ensure_all(programs[0]) == ""
print(subprocess.run([programs[0], "-S"], capture_output=True, text=True, check=True).stdout)
print(subprocess.run([programs[0], "-t", "mangle", "-S"], capture_output=True, text=True, check=True).stdout)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("iptables"), reason="needs root and iptables")
def test_the_chains_are_made_once_and_again_when_somebody_has_flushed_them() -> None:
    command = ["unshare", "--net", sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    once, twice, again, mangle = done.stdout.strip("\n").split("\n\n")
    assert once == twice == again
    assert once.splitlines()[3:] == [
        "-N KUBE-FIREWALL",
        "-N KUBE-KUBELET-CANARY",
        "-A INPUT -j KUBE-FIREWALL",
        "-A OUTPUT -j KUBE-FIREWALL",
        '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" '
        "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    ]
    assert mangle.splitlines()[5:] == ["-N KUBE-IPTABLES-HINT", "-N KUBE-KUBELET-CANARY"]
