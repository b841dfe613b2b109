"""Write the bill of materials of what the requirements lock: CycloneDX 1.6, one component a locked package.

    python deploy/sbom.py     writes deploy/sbom.json

Names and versions come from requirements/*.txt, where every file of every package has its hash; licences come
from the packages' own metadata, so run it in an environment that holds them. Equal inputs give equal bytes.
"""

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = ROOT / "deploy" / "sbom.json"
SHIPPED = ("base", "mcp", "service")  # what users install, by extra; tools for development are not in it
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+) *(?:; *([^\\]*[^ \\]))?", re.MULTILINE)

# Packages that name their licence in words of their own instead of by an SPDX expression.
_WORDS = {
    "MIT License": "MIT",
    "MIT, BSD": "MIT AND BSD-3-Clause",
}


def components() -> list[dict[str, Any]]:
    """Return one entry for each package, however many of the requirements name it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for extra in SHIPPED:
        text = (ROOT / "requirements" / f"{extra}.txt").read_text()
        for name, version, marker in _PIN.findall(text):
            entry = found.setdefault((name, version), _component(name, version, marker))
            entry["properties"].append({"name": "shomei:extra", "value": extra})
    return [found[one] for one in sorted(found)]


def _component(name: str, version: str, marker: str) -> dict[str, Any]:
    reference = f"pkg:pypi/{name}@{version}"
    properties = [{"name": "shomei:only", "value": marker}] if marker else []
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [{"expression": licence}] if (licence := licence_of(name)) else [],
        "properties": properties,
    }


def licence_of(name: str) -> str | None:
    """Return the SPDX expression of a package's licence; None for one that is not installed here."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return None
    told = about.get("License-Expression") or about.get("License")
    if not told:
        classifiers = about.get_all("Classifier") or []
        told = next(one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::"))
    return _WORDS.get(told, told)


def document() -> str:
    """Return the whole bill as it is committed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reference = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = components()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference,
                "name": project["name"],
                "version": project["version"],
                "purl": reference,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": reference, "dependsOn": [one["bom-ref"] for one in parts]}],
    }
    return json.dumps(bill, indent=1) + "\n"


if __name__ == "__main__":
    WRITTEN.write_text(document())
