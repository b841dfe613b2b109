"""What can be told of image, compose file and unit without running them; no image was built or run."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shomei_service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text())
UNIT = (ROOT / "deploy" / "shomei.service").read_text()


def test_the_image_installs_what_is_locked_and_runs_as_nobody() -> None:
    installs = re.findall(r"pip install [^&\n]*", DOCKERFILE)
    assert len(installs) == 3
    for line in installs:
        assert "--no-deps" in line
        assert "--require-hashes" in line or "--no-index" in line
    assert "\nUSER 10001:10001\n" in DOCKERFILE
    assert DOCKERFILE.rindex("\nUSER ") < DOCKERFILE.rindex("\nENTRYPOINT ")
    assert not re.search(r"^ADD |curl|wget|apt-get|sudo|chmod 777|--trusted-host", DOCKERFILE, re.MULTILINE)
    assert not re.search(r"(TOKEN|PASSWORD|SECRET|_KEY)=", DOCKERFILE)


def test_the_image_copies_only_what_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source.split('/')[0]}" in ignored
    assert ignored[0] == "*"


def test_every_setting_in_compose_is_one_of_ours() -> None:
    known = {f"SHOMEI_{name.upper()}" for name in Settings.model_fields}
    given = COMPOSE["services"]["shomei"]["environment"]
    assert {name for name in given if name.startswith("SHOMEI_")} <= known
    assert given["SHOMEI_ENV"] == "production"
    assert not [name for name in given if name.endswith(("TOKEN", "PASSWORD", "PIN"))]


def test_compose_opens_one_port_on_loopback_and_holds_no_secret() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8088:8088"]
    for service in COMPOSE["services"].values():
        assert not service.get("privileged")
        for name in service.get("secrets", []):
            assert name in COMPOSE["secrets"]
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).exists()
    assert all(one["file"].startswith("./secrets/") for one in COMPOSE["secrets"].values())
    assert "/secrets/" in (ROOT / ".gitignore").read_text().split()


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("must: systemd is not on this machine")
    unit = tmp_path / "shomei.service"
    unit.write_text(UNIT.replace("/opt/shomei/bin/shomei", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_takes_from_the_service_what_it_does_not_need() -> None:
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "LimitCORE=0",
        "CapabilityBoundingSet=",
        "UMask=0077",
    ):
        assert line in UNIT.splitlines()
    assert not re.search(r"^Environment=.*(TOKEN|PASSWORD|PIN|KEY)", UNIT, re.MULTILINE)
