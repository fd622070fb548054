from datetime import timedelta
from pathlib import Path

import pytest

from pykubelet.apiserver.security.authenticate import certificate_user
from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.errors import Invalid
from unit.apiserver.security.pki_files import NOW, Clock, read


def test_certificates_name_their_users(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path, clock)
    users = [certificate_user(read(pair[0]), NOW) for pair in (pki.admin(), pki.node("n1"), pki.kubelet_client())]

    assert [(user.name, user.groups[:1]) for user in users if user is not None] == [
        ("kubernetes-admin", ("system:masters",)),
        ("system:node:n1", ("system:nodes",)),
        ("kube-apiserver-kubelet-client", ("system:authenticated",)),
    ]


def test_a_certificate_that_has_ended_or_is_for_servers_names_nobody(tmp_path: Path, clock: Clock) -> None:
    pki = Pki.open(tmp_path, clock)

    with pytest.raises(Invalid, match="has expired"):
        certificate_user(read(pki.admin()[0]), NOW + timedelta(days=366))
    with pytest.raises(Invalid, match="clientAuth"):
        certificate_user(read(pki.serving(["localhost"])[0]), NOW)
