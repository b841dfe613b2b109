"""Each misconfiguration is one line that says where to look; it makes nothing, and holds no secret."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shomei_service.cli.main import main
from tests.engine.custody.providers import softhsm
from tests.fakes import Home, new_home
from tests.providers import Custodian, Machines, Transit

SECRET = "s.a-token-nobody-may-see"
_NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[dict[str, object]], None]:
    """Set these and no other settings."""

    def set_all(settings: dict[str, object]) -> None:
        monkeypatch.setenv("SHOMEI_HOME", str(tmp_path / "home"))
        for name, value in settings.items():
            if value is None:
                monkeypatch.delenv(f"SHOMEI_{name.upper()}", raising=False)
            else:
                monkeypatch.setenv(f"SHOMEI_{name.upper()}", str(value))

    return set_all


Environ = Callable[[dict[str, object]], None]

WRONG: dict[str, tuple[str, dict[str, object], str]] = {
    "pkcs11: no module": ("pkcs11", {"pkcs11_module": None}, "SHOMEI_PKCS11_MODULE"),
    "pkcs11: no token": ("pkcs11", {"pkcs11_token": None}, "SHOMEI_PKCS11_TOKEN"),
    "pkcs11: module not there": ("pkcs11", {"pkcs11_module": "/nowhere.so"}, "SHOMEI_PKCS11_MODULE"),
    "pkcs11: module is no library": ("pkcs11", {"pkcs11_module": __file__}, "SHOMEI_PKCS11_MODULE"),
    "pkcs11: no such token": ("pkcs11", {"pkcs11_token": "another"}, "SHOMEI_PKCS11_TOKEN"),
    "pkcs11: no PIN": ("pkcs11", {"pkcs11_pin": None}, "SHOMEI_PKCS11_PIN_FILE"),
    "pkcs11: two PINs": ("pkcs11", {"pkcs11_pin_file": "/dev/null"}, "either SHOMEI_PKCS11_PIN_FILE"),
    "pkcs11: PIN file not there": (
        "pkcs11",
        {"pkcs11_pin": None, "pkcs11_pin_file": "/nowhere"},
        "SHOMEI_PKCS11_PIN_FILE names can not be read",
    ),
    "pkcs11: PIN file empty": ("pkcs11", {"pkcs11_pin": None, "pkcs11_pin_file": "/dev/null"}, "is empty"),
    "vault: no URL": ("vault", {"vault_url": None}, "SHOMEI_VAULT_URL"),
    "vault: in the clear": ("vault", {"vault_url": "http://vault.example:8200"}, "must be https"),
    "vault: no URL at all": ("vault", {"vault_url": "vault.example:8200"}, "SHOMEI_VAULT_URL is not a URL"),
    "vault: impossible port": ("vault", {"vault_url": "https://vault.example:99999"}, "is not a URL"),
    "vault: password in the URL": (
        "vault",
        {"vault_url": f"https://root:{SECRET}@vault.example"},
        "must not carry a user or a password",
    ),
    "vault: nobody there": (
        "vault",
        {"vault_url": _NOBODY},
        "Vault does not answer",
    ),
    "vault: no token": ("vault", {"vault_token": None}, "SHOMEI_VAULT_TOKEN"),
    "vault: wrong token": ("vault", {"vault_token": SECRET}, "Vault refuses the token"),
    "vault: token of two lines": ("vault", {"vault_token": f"{SECRET}\nX-Evil: 1"}, "one line"),
    "vault: token file not there": (
        "vault",
        {"vault_token": None, "vault_token_file": "/nowhere"},
        "SHOMEI_VAULT_TOKEN_FILE names can not be read",
    ),
    "vault: no such mount": ("vault", {"vault_mount": "elsewhere"}, "Vault refuses the token"),
    "vault: mount is no path": ("vault", {"vault_mount": "../sys"}, "SHOMEI_VAULT_MOUNT"),
    "vault: namespace not there": ("vault", {"vault_namespace": "nowhere/"}, "Vault"),
    "vault: no authorities": ("vault", {"vault_ca_file": "/dev/null"}, "SHOMEI_VAULT_CA_FILE"),
    "vault: authorities not there": ("vault", {"vault_ca_file": "/nowhere"}, "SHOMEI_VAULT_CA_FILE"),
    "vault: tls expected": ("vault", {"vault_url": "TLS"}, "Vault's certificate is not one to trust"),
    "kms: no region": ("aws-kms", {"aws_region": None, "aws_endpoint_url": None}, "SHOMEI_AWS_REGION"),
    "kms: region is none": ("aws-kms", {"aws_region": "not a region"}, "SHOMEI_AWS_REGION"),
    "kms: nobody there": ("aws-kms", {"aws_endpoint_url": _NOBODY}, "KMS does not answer"),
    "kms: in the clear": ("aws-kms", {"aws_endpoint_url": "http://kms.example"}, "must be https"),
    "kms: too few days": ("aws-kms", {"aws_deletion_days": 6}, "SHOMEI_AWS_DELETION_DAYS"),
    "kms: too many days": ("aws-kms", {"aws_deletion_days": 31}, "SHOMEI_AWS_DELETION_DAYS"),
}


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what stderr got, without the notices of development custody."""
    said = capsys.readouterr()
    assert said.out == ""
    for secret in (SECRET, softhsm.PIN):
        assert secret not in said.err
    return [line for line in said.err.splitlines() if "for development only" not in line]


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_init_with_what_can_not_work_says_so_once_and_makes_nothing(
    machines: Machines, environ: Environ, capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: str
) -> None:
    kind, changes, words = WRONG[wrong]
    custodian = machines.custodian(kind)
    settings = {**custodian.settings, "custody_timeout_s": 5, **changes}
    if settings.get("vault_url") == "TLS":
        assert isinstance(custodian, Transit)
        settings["vault_url"] = custodian.bao.url.replace("http:", "https:")
    environ(settings)
    assert main(["init"]) == 1
    (line, *more) = lines(capsys)
    assert words in line
    assert [one for one in more if one != "shomei: a setting is not valid"] == []
    assert list(tmp_path.iterdir()) == []
    assert custodian.living(tmp_path / "home") == set()


@pytest.fixture
def home(custodian: Custodian, tmp_path: Path) -> Home:
    return new_home(tmp_path, **custodian.settings)


def test_what_init_made_opens_with_the_same_settings(
    custodian: Custodian, home: Home, environ: Environ, capsys: pytest.CaptureFixture[str]
) -> None:
    environ(custodian.settings)
    assert main(["--json", "keys", "list"]) == 0
    said = capsys.readouterr()
    notices = [line for line in said.err.splitlines() if "for development only" in line]
    assert len(notices) == (1 if custodian.finality == "unassured" else 0)


def test_production_refuses_what_is_for_development(
    custodian: Custodian, home: Home, environ: Environ, capsys: pytest.CaptureFixture[str]
) -> None:
    """Local files, and a token in software that passes for one in hardware."""
    environ({**custodian.settings, "env": "production"})
    is_development = custodian.finality == "unassured"
    assert main(["keys", "list"]) == (1 if is_development else 0)
    if is_development:
        (line,) = lines(capsys)
        assert "production refuses" in line


def test_the_effective_settings_show_no_secret(
    custodian: Custodian, home: Home, environ: Environ, capsys: pytest.CaptureFixture[str]
) -> None:
    environ(custodian.settings)
    assert main(["config"]) == 0
    shown = capsys.readouterr().out
    for name in ("pkcs11_pin", "vault_token"):
        if name in custodian.settings:
            assert str(custodian.settings[name]) not in shown
            assert f"SHOMEI_{name.upper()}: **********" in shown


def test_keys_that_another_provider_holds_are_not_made_anew(
    machines: Machines, environ: Environ, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Vault is right, the mount is another one's: what is there must not be taken for a new beginning."""
    new_home(tmp_path, **machines.custodian("vault").settings)
    other = machines.custodian("vault")
    environ(other.settings)
    assert main(["keys", "list"]) == 1
    (line,) = lines(capsys)
    assert "the provider has no key for this custody store" in line
    assert other.living(tmp_path) == set()


@pytest.mark.parametrize("kind", ["pkcs11", "vault"])
def test_a_secret_is_read_from_its_file(
    machines: Machines, environ: Environ, capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    settings = machines.custodian(kind).settings
    name = "pkcs11_pin" if kind == "pkcs11" else "vault_token"
    (tmp_path / "secret").write_text(f"{settings[name]}\n")
    environ({**settings, name: None, f"{name}_file": tmp_path / "secret"})
    assert main(["init"]) == 0
    assert str(settings[name]) not in capsys.readouterr().err
