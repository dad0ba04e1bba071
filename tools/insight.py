"""Generate the schemas of the answers of ``/insight`` and of the planner's requests from their msgspec structs."""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import dra_scheduler.plan
import msgspec
from dra_scheduler.explain.free import Free
from dra_scheduler.explain.report import ClassReport, PodReport
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_shared.cel.claimbench import ClaimAnswer, ClassesAnswer
from dra_shared.cel.workbench import CelAnswer
from dra_shared.jsontypes import JsonObject

FILE = Path(__file__).parents[1] / "services/apiserver/dra_apiserver/front/insight.json"
_ANSWERS = (Free, PodReport, ClassReport, CelAnswer, ClaimAnswer, ClassesAnswer)


def _planner_structs() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for module in pkgutil.walk_packages(dra_scheduler.plan.__path__, "dra_scheduler.plan."):
        for name, found in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(found) and issubclass(found, msgspec.Struct):
                yield name, found


def schemas() -> JsonObject:
    """Return the schemas by name, and the names of each question's request and answer."""
    known = dict(_planner_structs())
    questions = {
        name: {
            "about": question.about,
            "request": question.request.__name__,
            # The annotation is the type's name, because the module imports the type only under TYPE_CHECKING.
            "answer": question.ask.__annotations__["return"],
        }
        for name, question in QUESTIONS.items()
    }
    planned = [known[question[part]] for question in questions.values() for part in ("request", "answer")]
    _, components = msgspec.json.schema_components(
        (*_ANSWERS, *dict.fromkeys(planned)), ref_template="#/components/schemas/{name}"
    )
    return {"questions": questions, "schemas": components}


def text() -> str:
    """Return the content of the schema file."""
    return json.dumps(schemas(), indent=1, sort_keys=True) + "\n"
