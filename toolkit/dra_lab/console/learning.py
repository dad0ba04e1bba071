"""The console of a learner: the lessons, and the console of the current lesson's cluster."""

import secrets
from typing import Self

from dra_apiserver.front.console import Settings
from dra_kube.access import ChosenCluster
from dra_shared.client.rest import Client
from fastapi import FastAPI

from dra_lab.console.doorkeeper import Application, Doorkeeper, Receive, Scope, Send
from dra_lab.console.lessons import Desk, router
from dra_lab.console.server import listen, pages
from dra_lab.learn.classroom import Classroom
from dra_lab.learn.notebook import Notebook


class LearnersConsole:
    """An ASGI application, used with ``async with``. Each lesson has another cluster."""

    def __init__(self, notebook: Notebook, classroom: Classroom) -> None:
        self._cluster = ChosenCluster(data=notebook.data)
        self.desk = Desk(notebook, classroom, self.follow)
        self._lessons = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        self._lessons.include_router(router(self.desk))
        self._client: Client | None = None
        self._pages: Application

    async def __aenter__(self) -> Self:
        await self.follow()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def follow(self) -> None:
        """Show the cluster that now runs.

        Raises:
            UserError: no cluster runs.
        """
        client = await self._cluster.client("dralab-console").__aenter__()
        await self._leave()
        self._client = client
        self._pages = pages(self._cluster, client, Settings(learn=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = self._lessons if scope.get("path", "").startswith("/learn/") else self._pages
        await inside(scope, receive, send)

    async def _leave(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)


async def serve(notebook: Notebook, classroom: Classroom, port: int, opens: bool) -> None:
    """Serve until Ctrl-C. Print the address, which contains the key, and open it in the browser.

    Raises:
        UserError: the port is taken, or no lesson's cluster runs.
    """
    key = secrets.token_urlsafe(24)
    async with LearnersConsole(notebook, classroom) as console:
        note = f"your files: {notebook.folder}; Ctrl-C ends the console, `dralab learn stop` the cluster"
        await listen(Doorkeeper(console, key, writes=True), port, f"?key={key}#/learn", note, opens)
