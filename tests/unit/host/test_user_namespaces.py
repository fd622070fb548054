import os
import pwd
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.dirs import PodDirs
from pykubelet.host.user_namespaces import UserNamespaces, subordinate_ids
from pykubelet.pod.container.user_namespaces import UNIT, IdMapping, IdSpace


def own_users(name: str) -> Pod:
    pod = make_pod(name)
    return changed(pod, spec=changed(pod.spec, host_users=False))


async def made(dirs: PodDirs, name: str) -> Pod:
    pod = own_users(name)
    await dirs.make(pod)
    return pod


def file_of(dirs: PodDirs, name: str) -> Path:
    return Path(dirs.pod(f"uid-{name}"), "userns")


async def test_a_pod_with_the_hosts_users_gets_no_mapping_and_no_file(dirs: PodDirs) -> None:
    pod = make_pod("web")
    await dirs.make(pod)
    assert await UserNamespaces(dirs).mappings(pod) == ()
    assert not file_of(dirs, "web").exists()


async def test_a_pod_keeps_its_users_and_they_are_noted_as_upstream_does(dirs: PodDirs) -> None:
    pods = UserNamespaces(dirs)
    mapping = await pods.mappings(await made(dirs, "a"))
    assert mapping == (IdMapping(host_id=65536, container_id=0, length=65536),)
    assert await pods.mappings(own_users("a")) == mapping
    assert await pods.mappings(await made(dirs, "b")) != mapping
    assert file_of(dirs, "a").read_bytes() == (
        b'{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],'
        b'"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}'
    )
    assert sorted(os.listdir(dirs.pod("uid-a"))) == ["plugins", "userns", "volumes"]


async def test_the_next_agent_knows_what_the_one_before_gave_away(dirs: PodDirs) -> None:
    await UserNamespaces(dirs).mappings(await made(dirs, "a"))
    after = UserNamespaces(dirs)
    await after.load()
    assert (await after.mappings(await made(dirs, "b")))[0].host_id == 2 * UNIT
    assert (await after.mappings(own_users("a")))[0].host_id == UNIT


async def test_users_that_were_given_back_may_be_somebody_elses(dirs: PodDirs) -> None:
    pods = UserNamespaces(dirs, IdSpace(length=UNIT))
    first = await pods.mappings(await made(dirs, "a"))
    with pytest.raises(Retry, match="could not find an empty slot"):
        await pods.mappings(await made(dirs, "b"))
    await pods.release("uid-a")
    await pods.release("uid-a")
    assert not file_of(dirs, "a").exists()
    assert await pods.mappings(own_users("b")) == first


async def test_the_pod_whose_folder_is_gone_gives_back_its_users(dirs: PodDirs) -> None:
    pods = UserNamespaces(dirs, IdSpace(length=UNIT))
    await pods.mappings(await made(dirs, "a"))
    await dirs.remove("uid-a")
    await pods.release("uid-a")
    assert await pods.mappings(await made(dirs, "b"))


async def test_while_it_is_unclear_who_has_which_users_nobody_gets_new_ones(dirs: PodDirs) -> None:
    await made(dirs, "old")
    file_of(dirs, "old").write_text("{")
    pods = UserNamespaces(dirs)
    known = await pods.mappings(await made(dirs, "known"))
    pods = UserNamespaces(dirs)
    await pods.load()
    assert await pods.mappings(own_users("known")) == known
    with pytest.raises(Retry, match=r"uid-old/userns cannot be used: .*remove it"):
        await pods.mappings(await made(dirs, "new"))
    with pytest.raises(Retry, match="uid-old/userns cannot be used"):
        await pods.mappings(own_users("old"))
    file_of(dirs, "old").unlink()
    assert await pods.mappings(own_users("new"))
    assert await pods.mappings(own_users("old"))


async def test_a_range_that_cannot_be_noted_is_not_given_out(dirs: PodDirs) -> None:
    pods = UserNamespaces(dirs, IdSpace(length=UNIT))
    with pytest.raises(Retry, match="userns cannot be written: No such file"):
        await pods.mappings(own_users("nowhere"))
    assert await pods.mappings(await made(dirs, "b"))


class _Machine:
    """One with a user kubelet and a getsubids that says what it is told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setattr(pwd, "getpwnam", lambda name: None)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def says(self, users: str, groups: str) -> None:
        program = self.folder / "getsubids"
        program.write_text(f'#!/bin/sh\n[ "$1" = -g ] && printf "{groups}" || printf "{users}"\n')
        program.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Machine:
    return _Machine(tmp_path, monkeypatch)


def test_a_machine_may_set_ids_aside_for_the_kubelet(machine: _Machine) -> None:
    machine.says("0: kubelet 131072 7208960\\n", "0: kubelet 131072 7208960\\n")
    assert subordinate_ids() == IdSpace(first=131072, length=7208960)


@pytest.mark.parametrize(
    ("users", "groups", "why"),
    [
        ("0: kubelet 65536 7208960", "0: kubelet 131072 7208960", "are not the same"),
        ("", "", "does not name one range"),
        ("0: kubelet 1 2\\n1: kubelet 3 4\\n", "0: kubelet 1 2", "does not name one range"),
        ("0: kubelet one 2", "0: kubelet one 2", "does not name one range"),
    ],
)
def test_ids_that_do_not_do_are_refused(machine: _Machine, users: str, groups: str, why: str) -> None:
    machine.says(users, groups)
    with pytest.raises(Invalid, match=why):
        subordinate_ids()


def test_without_a_user_kubelet_pods_may_have_all_but_the_first_ids() -> None:
    assert subordinate_ids() == IdSpace()
    assert subordinate_ids(2 * UNIT) == IdSpace(first=2 * UNIT, length=2**32 - 2 * UNIT, per_pod=2 * UNIT)
