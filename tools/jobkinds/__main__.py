"""Write the definitions of the job kinds to the controllers, from the CRDs in the operators' repositories.

``python -m tools.jobkinds FOLDER`` reads the repositories' clones in the folder. The written schemas have no
descriptions. A part that occurs several times, such as the schema of a pod template, is written once.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

_ROOT = Path(__file__).parent.parent.parent
TARGET = _ROOT / "services/controller/dra_controller/jobkinds/definitions.json"
#: The files of each operator, below the clone of its repository.
SOURCES = {
    "jobset": ["jobset/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"],
    "lws": ["lws/config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"],
    "ray": [
        "kuberay/ray-operator/config/crd/bases/ray.io_rayclusters.yaml",
        "kuberay/ray-operator/config/crd/bases/ray.io_rayjobs.yaml",
    ],
    "mpi": ["mpi-operator/manifests/base/kubeflow.org_mpijobs.yaml"],
    "trainer": [
        "trainer/manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
        "trainer/manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
        "trainer/manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
    ],
}
# Under these keys are plain values, not schemas.
_VALUES = ("default", "enum", "required", "x-kubernetes-validations")
_SMALLEST = 60


def drop_descriptions(schema: Any) -> Any:
    """Return the schema without descriptions, but keep properties that are named ``description``."""
    if isinstance(schema, list):
        return [drop_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, part in schema.items():
        if key in _VALUES:
            kept[key] = part
        elif key == "properties":
            kept[key] = {name: drop_descriptions(one) for name, one in part.items()}
        elif key != "description":
            kept[key] = drop_descriptions(part)
    return kept


class Sharing:
    """The parts that occur more than once in the values."""

    def __init__(self, values: Any) -> None:
        self.parts: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._count(values)

    def _count(self, value: Any) -> None:
        if isinstance(value, list):
            for part in value:
                self._count(part)
        elif isinstance(value, dict):
            text = json.dumps(value, sort_keys=True)
            self._counts[text] += 1
            if self._counts[text] == 1:
                self._count(list(value.values()))

    def fold(self, value: Any) -> Any:
        """Return the value with ``{"$": NUMBER}`` in place of shared parts."""
        if isinstance(value, list):
            return [self.fold(part) for part in value]
        if not isinstance(value, dict):
            return value
        text = json.dumps(value, sort_keys=True)
        if self._counts[text] == 1 or len(text) < _SMALLEST:
            return {key: self.fold(part) for key, part in value.items()}
        if text not in self._numbers:
            part = {key: self.fold(one) for key, one in value.items()}
            self._numbers[text] = len(self.parts)
            self.parts.append(part)
        return {"$": self._numbers[text]}


def read(file: Path) -> Any:
    """Return the definition in the file, without what an API server or a description adds."""
    definition = yaml.safe_load(file.read_text())
    return {
        "apiVersion": definition["apiVersion"],
        "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]},
        "spec": drop_descriptions(definition["spec"]),
    }


def main() -> None:
    """Write the definitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found = {name: [read(folder / file) for file in files] for name, files in SOURCES.items()}
    sharing = Sharing(found)
    folded = {name: [sharing.fold(one) for one in definitions] for name, definitions in found.items()}
    lines = [json.dumps(part, separators=(",", ":")) for part in sharing.parts]
    rows = [f'"{name}":{json.dumps(one, separators=(",", ":"))}' for name, one in folded.items()]
    text = '{"shared":[\n' + ",\n".join(lines) + '\n],"operators":{\n' + ",\n".join(rows) + "\n}}\n"
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
