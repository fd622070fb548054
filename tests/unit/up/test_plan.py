import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.up.folder import Folder
from pykubelet.up.plan import check_same, cluster_plan, node_name


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_asked_for_and_taken_is_refused_with_who_has_it(tmp_path: Path, taken: int) -> None:
    with pytest.raises(Invalid, match=rf"port {taken} is taken by .* \(pid \d+\); choose another with --port"):
        cluster_plan(Folder(tmp_path / "data"), print, None, runtime="process", bind="", port=taken)


def test_a_port_of_before_that_is_taken_now_is_told_and_another_one_is_kept(tmp_path: Path, taken: int) -> None:
    folder, said = Folder(tmp_path / "data"), list[str]()

    def plan(port: int = 0) -> int:
        return folder.save(cluster_plan(folder, said.append, None, runtime="process", bind="", port=port)).api_port

    first = plan()
    folder.save(cluster_plan(folder, said.append, None, runtime="process", bind="", port=first))
    with socket.create_server(("127.0.0.1", first)):
        said.clear()
        second = plan()
        assert second != first
        assert said[-1].startswith(f"Port {first} is taken by ")
        assert said[-1].endswith(f"the API server serves on port {second}.")
    said.clear()
    assert plan() == second
    assert not [each for each in said if "API server" in each]


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"cannot serve at 192\.0\.2\.1:"):
        cluster_plan(Folder(tmp_path / "data"), print, None, runtime="process", bind="192.0.2.1", port=0)


def test_a_runtime_that_is_none_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="there is no runtime for the endpoint 'docker'; there are: process"):
        cluster_plan(Folder(tmp_path / "data"), print, None, runtime="docker", bind="", port=0)
    assert not (tmp_path / "data").exists()


def test_what_runs_is_not_made_stricter_by_asking_for_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    folder.save(cluster_plan(folder, print, None, runtime="process", bind="", port=0))
    with pytest.raises(Invalid, match="what runs tells of limits that it cannot enforce; stop it first"):
        check_same(folder, manifests=None, bind="", port=0, refuse_unenforced=True)


def test_every_machine_has_a_name_that_a_node_can_have() -> None:
    assert node_name("Laptop.local") == "laptop.local"
    assert node_name("my_machine") == "my-machine"
    assert node_name(f"{'x' * 51}-{'y' * 12}") == "x" * 51
    assert node_name("büro") == "b-ro"
    assert node_name("---") == "node"
