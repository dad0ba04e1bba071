from pathlib import Path

from tests.apiserver.fuzzing.run import fuzz, serve

REQUESTS = 2000


async def test_random_requests_cause_no_internal_error(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        outcome = await fuzz(server, seed=11, count=REQUESTS)
        assert outcome.broken == []
        # The test is useless if all requests are rejected before they reach a handler.
        assert sum(outcome.codes.values()) == REQUESTS
        for code, least in {200: 100, 201: 50, 400: 100, 409: 20, 422: 100}.items():
            assert outcome.codes[code] >= least, outcome.codes
