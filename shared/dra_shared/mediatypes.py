"""Media types of a plan's answer: JSON for programs, a report for people, CSV for spreadsheets."""

JSON = "application/json"
HTML = "text/html"
CSV = "text/csv"


def choose(accept: str) -> str:
    """Return the first of our media types that an Accept header names. The default is JSON."""
    for entry in accept.split(","):
        name = entry.partition(";")[0].strip().lower()
        if name in (JSON, HTML, CSV):
            return name
    return JSON
