"""Pack the relay as an MCP bundle: manifest, the relay's and the verifier's code, pinned dependencies.

    python bundle/build.py WHEEL OUTPUT

The host brings Python and installs what pyproject.toml pins (server type uv). Equal trees make equal bundles.
"""

import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE.parent / "requirements" / "mcp.txt"
SHIPPED = ("shomei_memory_mcp/", "shomei_memory_verify/")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip file can tell
_PIN = re.compile(r"^([A-Za-z0-9._-]+==[^ \\]+(?: ; [^\\]+?)?) *\\?$", re.MULTILINE)

ENTRY = """\
\"\"\"Where the host starts the relay.\"\"\"

from shomei_memory_mcp.server import main

main()
"""
PROJECT = """\
[project]
name = "shomei-memory-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = [
{pins}
]

[tool.uv]
package = false
"""


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the bundle's files by name."""
    with zipfile.ZipFile(wheel) as packed:
        code = {
            f"src/{name}": packed.read(name)
            for name in packed.namelist()
            # The metadata is how the relay knows its own version.
            if name.startswith(SHIPPED) or name.endswith((".dist-info/METADATA", "licenses/LICENSE"))
        }
    version = wheel.name.split("-")[1]
    pins = "\n".join(f'  "{pin.strip()}",' for pin in _PIN.findall(PINS.read_text()))
    return code | {
        "manifest.json": (HERE / "manifest.json").read_bytes(),
        "pyproject.toml": PROJECT.format(version=version, pins=pins).encode(),
        "src/server.py": ENTRY.encode(),
    }


def write(files: dict[str, bytes], output: Path) -> None:
    """Write the files as a zip archive that depends on nothing but them."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in sorted(files):
            bundle.writestr(zipfile.ZipInfo(name, EPOCH), files[name], zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    write(contents(Path(sys.argv[1])), Path(sys.argv[2]))
