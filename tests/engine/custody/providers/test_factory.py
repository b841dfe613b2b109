"""What other tests build on: a custodian that is ready, whose keys can be counted, copied, brought back."""

from pathlib import Path

from shomei_service.engine.custody.providers.protocol import KeyState
from tests.providers import Custodian

KEY, AAD = b"\x07" * 32, b"bound"
NAME = "epoch-" + "0a" * 16


def test_a_snapshot_of_a_provider_brings_back_a_key_that_was_destroyed(
    custodian: Custodian, tmp_path: Path
) -> None:
    """The limit that receipts state: whoever copied the provider before has it. CUSTODY.md §7, proof 6."""
    provider = custodian.initialised(tmp_path)
    assert custodian.living(tmp_path) == set()
    handle = provider.create(NAME)
    wrapped = provider.wrap(handle, KEY, AAD)
    assert custodian.living(tmp_path) == {NAME}
    snapshot = custodian.snapshot(tmp_path, tmp_path / "snapshot")
    assert provider.destroy(handle).method.value == custodian.destroy_method
    assert provider.state(handle) is not KeyState.ACTIVE
    assert custodian.living(tmp_path) == set()
    with custodian.restored(snapshot) as back:
        assert back.unwrap(handle, wrapped, AAD) == KEY
