"""Runs last: every receipt the engine issued in this session, by our verifier and by the published one."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from shomei_memory_verify import verify_signed_receipt
from tests.fakes import ISSUED
from tests.verify.conftest import PUBLISHED

_DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import shomei_memory_verify as published
assert published.__version__ == "0.0.2" and published.__file__.startswith(sys.argv[1])
for line in sys.stdin:
    receipt, pin = json.loads(line)
    result = published.verify_signed_receipt(receipt, expected_public_key_hex=pin)
    if not result.authenticated or result.body != receipt["body"]:
        print(result.reason, receipt["schema"])
"""


def test_every_receipt_issued_so_far_is_authentic_by_both_verifiers(tmp_path: Path) -> None:
    refused = Counter(
        (result.reason, str(envelope["schema"]))
        for envelope, pin in ISSUED
        if not (result := verify_signed_receipt(envelope, expected_public_key_hex=pin))
    )
    assert refused == {}
    target = tmp_path / "published"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), PUBLISHED]
    subprocess.run(install, check=True, capture_output=True)
    lines = "\n".join(json.dumps(pair) for pair in ISSUED)
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, str(target)], input=lines, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
