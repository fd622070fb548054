"""The embedded runtime pulls from a real registry, and its containers run what was pulled."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config
from kit.oci import BUSYBOX, PackedLayer, busybox_layer, folder, image_of, layer_of, make_image, tar_entry
from kit.ports import free_port
from kit.registry import PASSWORD, USER, LoopbackRegistry, loopback_registry
from pykubelet.api.container import Container
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.ports.runtime import PullCredentials, RegistryUnreachable
from pykubelet.runtime.process.runtime import ProcessRuntime
from unit.runtime.process.machine import UID, Machine, machine

CREDENTIALS = PullCredentials(username=USER, password=PASSWORD)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackRegistry]:
    with loopback_registry(tmp_path_factory.mktemp("open") / "registry") as made:
        yield made


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackRegistry]:
    with loopback_registry(tmp_path_factory.mktemp("closed") / "registry", protected=True) as made:
        yield made


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(tmp_path / "root", log_root=tmp_path / "logs", images="auto") as made:
        yield made


async def started(runtime: ProcessRuntime, node: Machine, name: str, image_id: str, *command: str) -> str:
    """To its end. -> what it has said"""
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    config = container_config(node, image=name, image_id=image_id, command=command)
    container_id = await runtime.create_container(sandbox_id, config)
    await runtime.start_container(container_id)
    await ended(runtime, UID, container_id)
    return node.output(container_id)


async def test_an_image_is_pulled_once_and_run(registry: LoopbackRegistry, node: Machine) -> None:
    base = busybox_layer()
    plain = PackedLayer(base, base.digest)
    layers = [plain, layer_of(folder("etc"), tar_entry("etc/motd", b"one"), packing="gzip")]
    layers.append(layer_of(tar_entry("etc/.wh.group"), tar_entry("etc/motd", b"two"), packing="zstd"))
    name = registry.push(image_of("x", layers, {"Cmd": ["cat", "/etc/motd"]}), "team/app", "1")
    assert await node.runtime.image(name) is None
    image, again = await asyncio.gather(node.runtime.pull_image(name), node.runtime.pull_image(name))
    assert image == again == await node.runtime.image(name)
    assert image.names == (name, f"{registry.address}/team/app@{image.names[1].partition('@')[2]}")
    assert image.size > BUSYBOX.stat().st_size
    assert image in await node.runtime.images()
    assert await started(node.runtime, node, name, image.id) == "two"
    by_digest = await node.runtime.image(image.names[1])
    assert by_digest == image
    other = registry.push(image_of("y", layers[:2]), "team/other", "1")
    await node.runtime.pull_image(other)
    assert len(list((node.root / "images" / "layers").iterdir())) == 3  # they share what they have in common
    assert not any((node.root / "images" / "partial").iterdir())


async def test_an_index_gives_each_machine_its_own(registry: LoopbackRegistry, node: Machine) -> None:
    base = busybox_layer()
    ours = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    images = {
        "linux/" + each: make_image(each, base, {"Env": ["PATH=/bin", f"ARCH={each}"]})
        for each in (ours, "mips", "riscv64")
    }
    name = registry.push_index(images, "many", "1")
    image = await node.runtime.pull_image(name)
    assert await started(node.runtime, node, name, image.id, "sh", "-c", "echo $ARCH") == f"{ours}\n"
    foreign = registry.push_index({each: images[each] for each in ("linux/mips", "linux/riscv64")}, "foreign", "1")
    with pytest.raises(Invalid, match="no image for linux/" + ours) as refusal:
        await node.runtime.pull_image(foreign)
    assert "there are: linux/mips, linux/riscv64" in str(refusal.value)


async def test_a_registry_that_wants_a_password_gets_it(closed: LoopbackRegistry, node: Machine) -> None:
    name = closed.push(make_image("x", busybox_layer()), "private", "1")
    with pytest.raises(Retry, match="pull access is denied to who shows no credentials"):
        await node.runtime.pull_image(name)
    with pytest.raises(Retry, match="pull access is denied to these credentials"):
        await node.runtime.pull_image(name, PullCredentials(username=USER, password="wrong"))
    image = await node.runtime.pull_image(name, CREDENTIALS)
    assert image.names[0] == name
    with pytest.raises(Retry, match="denied"):  # that it is here is no reason to give it to anybody
        await node.runtime.pull_image(name)


async def test_what_is_not_there_is_not_found(registry: LoopbackRegistry, node: Machine) -> None:
    with pytest.raises(NotFound, match=r"nothing: its manifest 1 is not there \(MANIFEST_UNKNOWN"):
        await node.runtime.pull_image(f"{registry.address}/nothing:1")


async def test_nobody_stands_in_for_an_image_but_where_no_registry_answers(node: Machine) -> None:
    name = f"127.0.0.1:{free_port()}/team/app:1"
    with pytest.raises(RegistryUnreachable, match="cannot be reached"):
        await node.runtime.pull_image(name)
    stand_in = node.runtime.capabilities.stand_in
    assert stand_in is not None
    found = await stand_in(Container(name="c", image=name, command=("sh", "-c", "true")))
    assert found is not None
    assert (found.id, found.built_in) == ("machine", True)
    for command in ((), ("/app/server",), ("no-such-program",)):
        assert await stand_in(Container(name="c", image=name, command=command)) is None
