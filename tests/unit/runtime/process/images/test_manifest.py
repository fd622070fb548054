"""Which image is meant for this machine, and what is no image at all."""

import json

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.images.manifest import chain_ids, document, for_this_machine, image_file

_DIGEST = "sha256:" + "a" * 64


def index(*platforms: str) -> bytes:
    entries = []
    for number, platform in enumerate(platforms):
        system, architecture, variant = (*platform.split("/"), "")[:3]
        described = {"os": system, "architecture": architecture, "variant": variant}
        entries.append({"digest": f"sha256:{number:064}", "size": 1, "platform": described})
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


@pytest.mark.parametrize(
    ("machine", "platforms", "wanted"),
    [
        ("x86_64", ("linux/arm64", "linux/amd64", "windows/amd64"), 1),
        ("x86_64", ("linux/amd64/v3", "linux/amd64"), 1),
        ("aarch64", ("linux/arm64", "linux/arm64/v8"), 1),
        ("armv7l", ("linux/arm/v5", "linux/arm/v6", "linux/arm/v7"), 2),
        ("armv6l", ("linux/arm/v7", "linux/arm/v5"), 1),
        ("riscv64", ("linux/amd64", "linux/riscv64"), 1),
        ("x86_64", ("linux/amd64", "unknown/unknown"), 0),
    ],
)
def test_the_best_that_runs_here_is_chosen(machine: str, platforms: tuple[str, ...], wanted: int) -> None:
    assert for_this_machine(document(index(*platforms)), machine).digest == f"sha256:{wanted:064}"


def test_what_there_is_instead_is_told() -> None:
    with pytest.raises(Invalid, match=r"no image for linux/amd64; there are: windows/amd64, linux/arm/v7$"):
        for_this_machine(document(index("windows/amd64", "linux/arm/v7", "unknown/unknown")), "x86_64")


def test_a_single_manifest_need_not_say_whom_it_is_for() -> None:
    only = json.dumps({"schemaVersion": 2, "manifests": [{"digest": _DIGEST, "size": 1}]}).encode()
    assert for_this_machine(document(only), "x86_64").digest == _DIGEST


def manifest(**fields: object) -> bytes:
    config = {"digest": _DIGEST, "size": 1, "mediaType": "application/vnd.oci.image.config.v1+json"}
    return json.dumps({"schemaVersion": 2, "config": config, "layers": [], **fields}).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "its manifest cannot be read"),
        (b'{"schemaVersion": 1}', "first format of Docker images"),
        (b'{"schemaVersion": 2}', "it is not an image"),
        (manifest(config={"digest": _DIGEST, "size": 1, "mediaType": "application/helm"}), "it is a application/helm"),
        (manifest(layers=[{"digest": "sha256:../x", "size": 1}]), "is not a digest"),
        (manifest(layers=[{"digest": _DIGEST, "size": -1}]), "size of its layer .* cannot be"),
        (manifest(layers=[{"digest": _DIGEST, "size": 1, "mediaType": "x+encrypted"}]), "is encrypted"),
        (manifest(layers=[{"digest": _DIGEST, "size": 1, "mediaType": "x.foreign"}]), "from somewhere else"),
        (manifest(layers=[{"digest": _DIGEST, "size": 1}] * 128), "it has 128 layers, and at most 127"),
    ],
)
def test_what_cannot_be_run_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        document(data)


def test_a_configuration_may_leave_anything_out_but_its_layers() -> None:
    rootfs = f'"rootfs": {{"diff_ids": ["{_DIGEST}"]}}'
    read = image_file(f'{{"config": {{"Entrypoint": null, "Cmd": ["x"], "Env": null}}, {rootfs}}}'.encode(), 1)
    assert (read.config.entrypoint, read.config.cmd) == ((), ("x",))
    assert image_file(f'{{"config": null, {rootfs}}}'.encode(), 1).config.cmd == ()
    with pytest.raises(Invalid, match="it has 1 layers, but its configuration knows of 0"):
        image_file(b"{}", 1)


def test_a_chain_is_known_by_all_its_layers() -> None:
    """As the standard has it."""
    first, second = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    assert chain_ids([first]) == ["1" * 64]
    assert chain_ids([first, second])[1] != chain_ids([second, second])[1]
    assert len(chain_ids([first, second, first])) == 3
