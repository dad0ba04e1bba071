"""The work of a sweep: one object that each worker gets, and that answers for any of its trials."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from dra_kube.yamlfile import read_yaml
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.sweeping.trials import Outcome, try_variant
from dra_shared import __version__
from dra_shared.api.codec import encode
from dra_shared.errors import UserError

from dra_worlds.edits import Changed
from dra_worlds.sweeping.draws import Draws, read_seeds
from dra_worlds.sweeping.variants import Variant, build_world, read_variants
from dra_worlds.working import Settings

_replace = msgspec.structs.replace
_FIELDS = ("pools", "vary", "arrivals", "seeds")


@dataclass(frozen=True)
class Job:
    """A sweep of ``document`` in the world of ``objects``. Pickled, it is all that a worker needs."""

    document: Mapping[str, Any]
    where: str
    folder: Path
    objects: Objects
    settings: Settings
    problems: tuple[str, ...]
    starved_after: float
    version: str = __version__
    _worlds: dict[str, Planner] = field(default_factory=dict, compare=False)

    @classmethod
    def read(
        cls, path: Path, objects: Objects, settings: Settings, problems: tuple[str, ...], starved_after: float
    ) -> "Job":
        """Read a sweep's file.

        Raises:
            UserError: it cannot be read, or has unknown parts.
        """
        document = read_yaml(path)
        if not isinstance(document, dict) or "arrivals" not in document:
            raise UserError(f"{path}: a sweep has {', '.join(_FIELDS)}; see docs/plan.md")
        for name in document:
            if name not in _FIELDS:
                raise UserError(f"{path}: {name}: unknown: choose {', '.join(_FIELDS)}")
        job = cls(document, str(path), path.parent.absolute(), objects, settings, problems, starved_after)
        # Errors of the file end the sweep before any worker starts.
        job.draws.draw(job.seeds[0])
        assert job.variants
        return job

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants, in the order of the file."""
        return read_variants(self.document, self.where)

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds of the arrivals."""
        return read_seeds(self.document, self.where)

    @cached_property
    def draws(self) -> Draws:
        """The arrivals."""
        return Draws(self.document.get("arrivals"), self.objects, self.folder, self.where)

    def __getstate__(self) -> dict[str, Any]:
        # Worlds have a scheduler, which cannot be pickled, and the other properties are computed again.
        names = self.__dataclass_fields__.keys() - {"_worlds"}
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _worlds={})

    def run(self, variant: Variant, seed: int, running: Callable[[], bool] = lambda: True) -> Outcome:
        """Return the outcome of a trial. A variant that is not possible has an outcome with the message."""
        try:
            planner = self._world(variant, running)
            outcome = try_variant(planner, self.draws.draw(seed), self.starved_after)
        except (UserError, ValueError) as error:
            outcome = Outcome(message=str(error))
        return _replace(outcome, variant=variant.name, seed=seed, settings=variant.settings)

    def _world(self, variant: Variant, running: Callable[[], bool]) -> Planner:
        known = self._worlds.get(variant.name)
        if known is None:
            self.close()
            base = Changed("as it is", self.objects, self.settings)
            objects, settings, _ = build_world(self.document, variant, base, self.folder)
            engine = Engine(settings.setup(), running=running)
            known = Planner(objects, engine, problems=self.problems, running=running)
            # One world is enough: the seeds of a variant follow each other.
            self._worlds[variant.name] = known
        return known

    def close(self) -> None:
        """Close the scheduler of the last trial."""
        for planner in self._worlds.values():
            planner.close()
        self._worlds.clear()

    def fingerprint(self) -> str:
        """Return a text that differs for another world, file or setting, so that old outcomes are not reused."""
        digest = hashlib.sha256()
        parts = (self.version, repr(self.document), repr(self.settings), str(self.starved_after))
        digest.update("\n".join(parts).encode())
        for resource, each in self.objects:
            for key, obj in sorted(each.items()):
                digest.update(f"{resource.plural} {key}\n".encode())
                digest.update(encode(resource, obj))
        for name in ("recorded", "shapes"):
            file = self.folder / str(self.document["arrivals"].get(name, ""))
            if file.is_file():
                digest.update(file.read_bytes())
        return digest.hexdigest()[:16]
