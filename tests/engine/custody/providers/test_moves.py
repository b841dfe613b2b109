"""From one real provider to the next and round: no row is sealed anew, no key stays behind. CUSTODY.md §5."""

from pathlib import Path

from shomei_service import provider as providers
from shomei_service.engine.custody import Custody, Seen
from shomei_service.settings import CustodyKind, Settings
from tests.engine.custody.home import INSTALLATION, Home, leaves, punctures
from tests.providers import KINDS, Machines

ROWS = range(256, 280)


def test_a_tree_goes_round_all_four_providers(machines: Machines, tmp_path: Path) -> None:
    every = {kind: machines.custodian(kind) for kind in KINDS}
    both = {name: value for one in every.values() for name, value in one.settings.items()}
    settings = Settings.model_validate({"home": tmp_path, **both, "custody": "local-file"})
    place = Home(tmp_path)
    custody = Custody.create(place.url, providers.initialised(settings), installation_id=INSTALLATION, now=1)
    assert custody.lease_tenant() == 1
    custody.lease_rows(1)
    before = leaves(custody, ROWS)
    erased: set[int] = set()
    for epoch, kind in enumerate(["pkcs11", "vault", "aws-kms", "local-file"]):
        last = every[KINDS[epoch]]
        done = custody.move(providers.goal(settings, CustodyKind(kind)), now=epoch)
        assert (done.destroy_method.value, done.finality.value) == (last.destroy_method, last.finality)
        assert last.living(tmp_path) == set()
        assert len(every[kind].living(tmp_path)) == 1
        custody.close()
        settings = settings.model_copy(update={"custody": CustodyKind(kind)})
        custody = Custody.open(
            place.url,
            providers.opened(settings),
            installation_id=INSTALLATION,
            seen=Seen(),
            now=50,
            elsewhere=providers.elsewhere(settings),
        )
        erased.add(ROWS[epoch])
        ended = custody.puncture(punctures([ROWS[epoch]]), now=60)
        assert ended.destroy_method.value == every[kind].destroy_method
        assert leaves(custody, ROWS) == {row: None if row in erased else before[row] for row in ROWS}
    custody.close()
