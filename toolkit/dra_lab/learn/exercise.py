"""A lesson on a running cluster: create its objects, apply the learner's manifests, check the goals."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_kube import manifests, objects
from dra_kube.discovery import Discovery
from dra_shared.cel import CompileError
from dra_shared.cel import types as t
from dra_shared.cel.rules import Rule, compile_over
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock
from dra_shared.errors import UserError

from dra_lab.learn.barrier import pass_barrier
from dra_lab.learn.lesson import Goal, Lesson, Mistake, common_mistakes, refusals
from dra_lab.learn.world import NAMESPACE, VARIABLES, World, look

#: Returns the output of ``dralab explain pod/NAME``.
Explain = Callable[[str], Awaitable[str]]

_POLL = 0.05
# The cluster is done if nothing has changed for so many seconds; more if a pod is still starting.
_QUIET = 0.1
_QUIET_ON_THE_WAY = 5.0
_LONGEST = 20.0
# Kinds that a learner may have created, owners first.
_KINDS = (
    "deployments",
    "jobs",
    "pods",
    "resourceclaims",
    "resourceclaimtemplates",
    "devicetaintrules",
)
_LINES = 14
_COST = 10_000_000


@dataclass(frozen=True)
class Verdict:
    """The progress of a lesson."""

    goals: Sequence[tuple[Goal, bool]]
    advice: Sequence[str] = ()
    """Advice about recognized mistakes, if the lesson is not solved."""
    explanations: Sequence[str] = ()
    """Explanations of pending pods, as in ``dralab explain``."""

    @property
    def is_solved(self) -> bool:
        """True if all goals are reached."""
        return all(reached for _, reached in self.goals)


class Exercise:
    """A lesson on the cluster of ``client``."""

    def __init__(self, lesson: Lesson, client: Client, explain: Explain, clock: Clock | None = None) -> None:
        self.lesson = lesson
        self._client = client
        self._explain = explain
        self._clock = clock or SystemClock()
        self._before = manifests.parse("before.yaml", lesson.before) if lesson.before else []
        self._containers = _containers(lesson)

    async def begin(self) -> None:
        """Create the lesson's initial objects, and wait until their pods run."""
        if not self._before:
            return
        await objects.apply(self._client, await Discovery.read(self._client), self._before, NAMESPACE)
        pods = [obj["metadata"]["name"] for obj in self._before if obj["kind"] == "Pod"]
        async with asyncio.timeout(_LONGEST):
            while True:
                world = await self._look()
                if all(name in world.pods and name not in world.pending_pods for name in pods):
                    return
                await self._clock.sleep(_POLL)

    async def submit(self, name: str, text: str) -> None:
        """Apply the learner's manifests, after deleting all objects that the learner created before.

        ``name`` is the file's name in errors.

        Raises:
            UserError, ApiError: they are not manifests, or are rejected.
        """
        try:
            loaded = manifests.parse(name, text)
        except UserError as refused:
            raise _explain_refusal(refused) from refused
        if not loaded:
            raise UserError(f"no objects in {name}")
        discovery = await Discovery.read(self._client)
        for obj in loaded:
            if (obj.get("metadata") or {}).get("namespace", NAMESPACE) != NAMESPACE:
                raise UserError(f"{obj.where}: lessons only check the namespace {NAMESPACE}")
            try:
                objects.target(discovery, obj, NAMESPACE)
            except UserError as refused:
                raise _explain_refusal(refused) from refused
        await self._clear(discovery)
        # Wait, because old objects of the same names could be judged instead of the new ones.
        await pass_barrier(self._client, discovery, self._clock, NAMESPACE)
        await self.begin()
        try:
            await objects.apply(self._client, discovery, loaded, NAMESPACE)
        except (ApiError, UserError) as refused:
            raise _explain_refusal(refused) from refused

    async def verdict(self) -> Verdict:
        """Wait until the cluster has settled, and return the progress."""
        began = changed = self._clock.monotonic()
        last: World | None = None
        while True:
            world = await self._look()
            reached = self._evaluate_goals(world)
            now = self._clock.monotonic()
            if last is None or last.version != world.version:
                last, changed = world, now
            quiet = _QUIET if world.at_rest else _QUIET_ON_THE_WAY
            if all(held for _, held in reached) or now - changed > quiet or now - began > _LONGEST:
                return await self._judge(world, reached)
            await self._clock.sleep(_POLL)

    async def glance(self) -> Verdict:
        """Return the current progress, without advice."""
        return Verdict(self._evaluate_goals(await self._look()))

    async def holds(self, expression: str) -> bool:
        """True if the expression is true now."""
        return _holds(expression, list((await self._look()).variables.values()))

    async def _look(self) -> World:
        return await look(self._client, self.lesson.samples)

    def _evaluate_goals(self, world: World) -> list[tuple[Goal, bool]]:
        values = list(world.variables.values())
        return [(goal, _holds(goal.expression, values)) for goal in self.lesson.goals]

    async def _judge(self, world: World, reached: list[tuple[Goal, bool]]) -> Verdict:
        if all(held for _, held in reached):
            return Verdict(reached)
        values = list(world.variables.values())
        advice = [
            *self._advise_on_missing_pods(world),
            *(text for mistake in common_mistakes() if (text := self._common(mistake, world))),
            *(mistake.say for mistake in self.lesson.mistakes if _holds(mistake.when, values)),
        ]
        mine = {obj["metadata"]["name"] for obj in self._before}
        waiting = [await self._why(name) for name in world.pending_pods if name not in mine]
        return Verdict(reached, advice, waiting)

    def _advise_on_missing_pods(self, world: World) -> list[str]:
        """Return advice about pods and containers that the goals look at and that do not exist."""
        missing = [name for name in self._containers if name not in world.pods]
        found = f"The goals look for pods by their names. These do not exist: {', '.join(missing)}."
        if any("ownerReferences" in pod["metadata"] for pod in world.pods.values()):
            found += " Pods of a Deployment or a Job have generated names, so write Pods."
        return [
            *([found] if missing else ()),
            *(
                f"The goals look at containers by their names. The pod {pod} has no container {name}."
                f"{_mention_init_container(world.pods[pod], name)}"
                for pod, names in self._containers.items()
                if pod in world.pods
                for name in names
                if all(one["name"] != name for one in world.pods[pod]["spec"].get("containers", ()))
            ),
        ]

    def _common(self, mistake: Mistake, world: World) -> str:
        """Return the advice about a mistake in the lesson's pods, empty if none of them has it."""
        values = list(world.variables.values())
        pods = [
            name
            for name in self._containers
            if name in world.pods and _holds(mistake.when, values, world.pods[name])
        ]
        return mistake.say.replace("{pods}", ", ".join(pods)) if pods else ""

    async def _why(self, pod: str) -> str:
        lines = (await self._explanation(pod)).splitlines()
        more = (
            [f"  … {len(lines) - _LINES} more lines: dralab explain pod/{pod}"] if len(lines) > _LINES else []
        )
        return "\n".join([*lines[:_LINES], *more])

    async def _explanation(self, pod: str) -> str:
        """Return the explanation of a pod. The scheduler, which gives it, may observe the pod later than we did.

        Raises:
            UserError: the scheduler cannot explain the pod, not even after twenty seconds.
        """
        began = self._clock.monotonic()
        while True:
            try:
                return await self._explain(pod)
            except UserError:
                if self._clock.monotonic() - began > _LONGEST:
                    raise
            await self._clock.sleep(_POLL)

    async def _clear(self, discovery: Discovery) -> None:
        """Delete the objects that the learner created."""
        kept = {(obj["kind"], obj["metadata"]["name"]) for obj in self._before}
        targets = []
        for plural in _KINDS:
            resource = discovery.resolve(plural)
            items: list[dict[str, Any]] = (await self._client.raw("GET", resource.path(NAMESPACE))).json()[
                "items"
            ]
            targets += [
                objects.Target(resource, NAMESPACE, item["metadata"]["name"])
                for item in items
                if (resource.kind, item["metadata"]["name"]) not in kept
                and not any(
                    (owner["kind"], owner["name"]) in kept
                    for owner in item["metadata"].get("ownerReferences", ())
                )
            ]
        await objects.delete(self._client, targets, missing_ok=True, grace_period=0)


def _mention_init_container(pod: dict[str, Any], name: str) -> str:
    """Return a sentence if the pod has an init container of that name."""
    inits = pod["spec"].get("initContainers", ())
    return f" There is an init container {name}." if any(one["name"] == name for one in inits) else ""


def _explain_refusal(refused: Exception) -> UserError:
    """Return the server's error, followed by advice if the lesson has some for it."""
    text = str(refused)
    advice = [one.say for one in refusals() if one.match.search(text)]
    return UserError("\n\n".join([text, *advice]))


def _containers(lesson: Lesson) -> dict[str, list[str]]:
    """Return the names of the pods that a learner's file should have, and of their containers."""
    loaded = manifests.parse(lesson.file_name, lesson.solution)
    return {
        obj["metadata"]["name"]: [one["name"] for one in obj["spec"]["containers"]]
        for obj in loaded
        if obj["kind"] == "Pod"
    }


@functools.lru_cache(maxsize=1024)
def compile_rule(expression: str) -> Rule:
    """Compile an expression over the variables of ``World`` and, for common mistakes, ``pod``.

    Raises:
        CompileError: it is malformed, or its result is not a bool.
    """
    rule = compile_over(expression, dict.fromkeys((*VARIABLES, "pod"), t.DYN), {})
    if rule.output_type not in (t.BOOL, t.DYN):
        raise CompileError(f"{expression}: must evaluate to bool")
    return rule


def _holds(expression: str, values: Sequence[Any], pod: Any = None) -> bool:
    """True if the expression is true. If it fails, for example because an object is missing, it is not."""
    return compile_rule(expression).run([*values, pod], _COST).value is True
