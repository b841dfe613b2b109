"""What the environment may say (DEV-40), and how a wrong value is turned away without being repeated."""

import json
from pathlib import Path

import pytest

from shomei_memory_mcp import settings
from shomei_memory_mcp.refusals import SettingsRefused
from tests.mcp.host import KEY


def base_url(value: str) -> str:
    return settings.read({"SHOMEI_MCP_BASE_URL": value}).base_url


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://127.0.0.1:8088", "http://127.0.0.1:8088"),
        ("http://127.0.0.1:8088/", "http://127.0.0.1:8088"),
        ("http://127.0.0.1:8088//", "http://127.0.0.1:8088"),
        ("http://127.0.0.1:8088/shomei", "http://127.0.0.1:8088/shomei"),
        ("http://127.0.0.1:8088/shomei/", "http://127.0.0.1:8088/shomei"),
        ("HTTP://LocalHost:8088", "http://localhost:8088"),
        ("http://127.9.8.7", "http://127.9.8.7"),
        ("http://[::1]:8088", "http://[::1]:8088"),
        ("  https://Memory.Example.test  ", "https://memory.example.test"),
        ("HTTPS://memory.example.test/A/b/", "https://memory.example.test/A/b"),
        ("https://10.0.0.5", "https://10.0.0.5"),
    ],
)
def test_base_urls_that_are_used(given: str, meant: str) -> None:
    assert base_url(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        *(
            "",
            " ",
            "not a url",
            "ftp://x",
            "file:///etc/passwd",
            "//127.0.0.1",
            "127.0.0.1:8088",
            "https://",
            "http:",
        ),
        *("http://user:pw@127.0.0.1", "https://user@memory.example.test", "https://@memory.example.test"),
        *(
            "https://memory.example.test?x=1",
            "https://memory.example.test/#a",
            "https://memory.example.test?",
        ),
        *(
            "https://memory.example.test:0",
            "https://memory.example.test:99999",
            "https://memory.example.test:x",
        ),
        *(
            "https://memory.example.test/a/../b",
            "https://memory.example.test/.",
            "https://[::1",
            "https://a b",
        ),
        *(
            "https://memory\n.example.test",
            "https://memory.example.test\\@evil.test",
            "https://m\u00e9moire.test",
        ),
        *("${user_config.base_url}", "https://%31.example.test"),
        *(
            "http://10.0.0.5",
            "http://memory.example.test",
            "http://localhost.evil.test",
            "http://127.0.0.1.evil.test",
        ),
        *("http://0.0.0.0", "http://2130706433", "http://0x7f.0.0.1", "http://127.1", "http://0177.0.0.1"),
        *(
            "http://[::ffff:127.0.0.1]",
            "http://[::]",
            "http://[fe80::1]",
            "http://localhost.",
            "http://128.0.0.1",
        ),
        *("http://127.0.0.1@evil.test", "http://evil.test/127.0.0.1", "http://\uff11\uff12\uff17.0.0.1"),
    ],
)
def test_base_urls_that_are_refused(given: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        base_url(given)
    line = str(refused.value)
    assert line.startswith("SHOMEI_MCP_BASE_URL ")
    assert "\n" not in line
    assert not given.strip() or given not in line
    assert "user:pw" not in line


def test_the_default_is_the_local_service() -> None:
    assert settings.read({}) == settings.Settings(base_url="http://127.0.0.1:8088", timeout_s=30.0)


@pytest.mark.parametrize("given", [KEY, f" {KEY}\n", "shm_x", "k"])
def test_keys_that_are_used(given: str) -> None:
    assert settings.read({"SHOMEI_MCP_API_KEY": given}).api_key == given.strip()


@pytest.mark.parametrize(
    "given",
    [
        *(
            " ",
            "\n",
            "${SHOMEI_MCP_API_KEY}",
            "$SHOMEI_MCP_API_KEY",
            "%SHOMEI_KEY%",
            "<your-key>",
            "{{key}}",
            "shm_...",
        ),
        *(
            f"{KEY}\nX-Evil: 1",
            f"{KEY} {KEY}",
            f'"{KEY}"',
            "k\u00e9y",
            "key\x00",
            "key\x7f",
            "shm_\u2026",
            "k" * 513,
        ),
    ],
)
def test_keys_that_are_refused(given: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        settings.read({"SHOMEI_MCP_API_KEY": given})
    line = str(refused.value)
    assert line.startswith("SHOMEI_MCP_API_KEY is not a key")
    assert KEY not in line


def test_an_empty_key_is_no_key() -> None:
    assert settings.read({"SHOMEI_MCP_API_KEY": ""}).api_key is None


def test_secrets_have_no_text_form() -> None:
    given = settings.read(
        {
            "SHOMEI_MCP_API_KEY": KEY,
            "SHOMEI_MCP_BASE_URL": "https://memory.example.test",
            "SHOMEI_MCP_PROXY": "http://user:pw@proxy.example.test:3128",
        }
    )
    assert given.proxy == "http://user:pw@proxy.example.test:3128"
    assert KEY not in repr(given)
    assert "user:pw" not in repr(given)


def test_a_proxy_is_for_https_only() -> None:
    assert settings.read({"SHOMEI_MCP_PROXY": "http://proxy.example.test:3128"}).proxy is None
    environ = {
        "SHOMEI_MCP_BASE_URL": "https://memory.example.test",
        "SHOMEI_MCP_PROXY": "socks5://proxy.test",
    }
    with pytest.raises(SettingsRefused, match="SHOMEI_MCP_PROXY"):
        settings.read(environ)


@pytest.mark.parametrize("given", ["0", "-1", "abc", "nan", "inf", "3601", "1e9"])
def test_timeouts_that_are_refused(given: str) -> None:
    with pytest.raises(SettingsRefused, match="SHOMEI_MCP_TIMEOUT_S"):
        settings.read({"SHOMEI_MCP_TIMEOUT_S": given})


def test_timeouts_and_switches_that_are_used() -> None:
    assert settings.read({"SHOMEI_MCP_TIMEOUT_S": " 2.5 "}).timeout_s == 2.5
    assert settings.read({"SHOMEI_MCP_TIMEOUT_S": ""}).timeout_s == 30.0
    assert [
        settings.read({"SHOMEI_MCP_READ_ONLY": each}).read_only for each in ("1", " True ", "0", "", "off")
    ] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(SettingsRefused, match="SHOMEI_MCP_READ_ONLY"):
        settings.read({"SHOMEI_MCP_READ_ONLY": "maybe"})


@pytest.mark.parametrize("name", ["SHOMEI_MCP_CA_FILE", "SSL_CERT_FILE"])
def test_certificate_files_are_read_at_the_start(name: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text(json.dumps("no certificate"))
    for path in (str(wrong), str(tmp_path / "absent.pem"), str(tmp_path)):
        with pytest.raises(SettingsRefused, match=f"^{name} does not name"):
            settings.read({"SHOMEI_MCP_BASE_URL": "https://memory.example.test", name: path})
    # Without TLS the file is not the relay's business.
    assert settings.read({name: str(wrong)}).ca_file is None
