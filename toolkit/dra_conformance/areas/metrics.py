"""Metrics of the driver, if the user gives their address (--metrics-url)."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from dra_conformance.check import Area, Breach, NotOffered
from dra_conformance.claims import Claim
from dra_conformance.session import Session

AREA = Area("metrics")

_FORMAT = "https://prometheus.io/docs/instrumenting/exposition_formats/"


@AREA.check(
    "format",
    "metrics can be scraped",
    promise="The address answers with Prometheus' text format.",
    source=_FORMAT,
    cost="Nobody sees that the driver fails.",
)
async def _check_format(session: Session) -> None:
    if not await _scrape(session):
        raise Breach("there are no metrics")


@AREA.check(
    "bounded",
    "labels do not grow with claims",
    promise="No label has the UID or name of a claim or pod.",
    source="https://prometheus.io/docs/practices/naming/#labels",
    cost="Each pod adds series, until Prometheus is out of memory.",
    recommended=True,
    rests_on=("metrics.format",),
)
async def _check_bounded(session: Session) -> None:
    async with session.claim(prepare=True) as claim:
        for name, labels in await _scrape(session):
            if any(_mentions_claim(claim, value) for value in labels.values()):
                raise Breach(f"{name} has {labels}")


def _mentions_claim(claim: Claim, label: str) -> bool:
    return claim.uid in label or label == claim.name or label.endswith(f"/{claim.name}")


async def _scrape(session: Session) -> list[tuple[str, dict[str, str]]]:
    if not session.metrics_url:
        raise NotOffered("needs --metrics-url")
    async with httpx.AsyncClient() as client:
        try:
            answer = await client.get(session.metrics_url, timeout=5.0)
            answer.raise_for_status()
            families = list(text_string_to_metric_families(answer.text))
        except (httpx.HTTPError, ValueError) as error:
            raise Breach(f"{session.metrics_url}: {error}") from error
    return [(sample.name, dict(sample.labels)) for family in families for sample in family.samples]
