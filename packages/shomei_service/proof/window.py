"""The days in which a scheduled deletion can be cancelled, shown open and then closed. CUSTODY.md §5."""

from collections.abc import Sequence
from typing import Final

from ..engine.custody.providers.kms_wire import KmsPlace, KmsWire, mapping
from ..engine.custody.providers.protocol import Handle, KeyState, Provider
from ..engine.errors import Fault
from ..settings import CustodyKind, Settings

_ALIAS: Final = "alias/shomei/"


class Window:
    """What an administrator of the provider may do to keys whose deletion is scheduled."""

    def __init__(self, settings: Settings, provider: Provider) -> None:
        self._settings: Final = settings
        self._provider: Final = provider

    def is_open(self, names: Sequence[str]) -> bool:
        """Say whether any of these keys is still there, used or not."""
        return any(self._provider.state(Handle(name)) is not KeyState.GONE for name in names)

    def cancel(self, names: Sequence[str]) -> bool:
        """Cancel the deletion of these keys and put them to use again; false where that is not allowed."""
        if self._settings.custody is not CustodyKind.AWS_KMS:
            return False
        wire = KmsWire(
            KmsPlace(
                region=self._settings.aws_region,
                deletion_days=self._settings.aws_deletion_days,
                endpoint_url=self._settings.aws_endpoint_url,
                timeout_s=self._settings.custody_timeout_s,
            )
        )
        try:
            for name in names:
                key = mapping(wire.ask("describe_key", KeyId=_ALIAS + name).get("KeyMetadata"))
                wire.ask("cancel_key_deletion", KeyId=str(key["KeyId"]))
                wire.ask("enable_key", KeyId=str(key["KeyId"]))
        except Fault:
            return False
        return all(self._provider.state(Handle(name)) is KeyState.ACTIVE for name in names)

    def close(self, names: Sequence[str]) -> None:
        """Schedule the deletion again."""
        for name in names:
            self._provider.destroy(Handle(name))
