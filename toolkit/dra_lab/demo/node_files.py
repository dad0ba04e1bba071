"""Files of the nodes for claims: CDI files and checkpoints."""

import json
from pathlib import Path


def cdi_file(data: Path, node: str, claim_uid: str) -> Path | None:
    """Return the CDI file that a driver wrote for the claim on that node, or None."""
    for path in (data / "nodes" / node / "cdi").glob(f"*{claim_uid}*"):
        return path
    return None


def leftovers(data: Path) -> list[str]:
    """Return the CDI files of claims and the entries in checkpoints that are left on any node."""
    found = []
    for node in sorted((data / "nodes").glob("*")):
        found += [f"CDI file {path}" for path in sorted((node / "cdi").glob("*claim*"))]
        for path in sorted(node.rglob("dra_manager_state")):
            entries = json.loads(json.loads(path.read_text())["Data"]).get("Entries") or []
            found += [f"claim {entry['ClaimName']} in {path}" for entry in entries]
        for path in sorted(node.rglob("checkpoint.json")):
            checkpoint = json.loads(path.read_text())
            prepared = (checkpoint.get("v2") or {}).get("preparedClaims") or {}
            found += [f"claim {uid} in {path}" for uid in prepared]
    return found
