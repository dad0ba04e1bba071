"""The processes of a lesson's cluster: start it, apply the learner's manifests, stop it."""

import contextlib
import shutil
from collections.abc import AsyncIterator

from dra_kube.access import ChosenCluster
from dra_kube.cluster import Cluster
from dra_shared.errors import UserError
from dra_worlds import insight

from dra_lab import run
from dra_lab.learn.exercise import Exercise
from dra_lab.learn.lesson import Lesson
from dra_lab.learn.notebook import Notebook
from dra_lab.learn.world import NAMESPACE
from dra_lab.starting import up_words


class Classroom:
    """Starts and stops the clusters of ``notebook``. Only one runs at a time."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._chosen = ChosenCluster(data=notebook.data)

    def runs(self, one: Lesson) -> bool:
        """True if the lesson's cluster runs."""
        return Cluster(self._notebook.data).is_running() and self._notebook.cluster == one.number

    def start(self, one: Lesson) -> None:
        """Start the lesson's cluster, in place of any other.

        Raises:
            UserError: it does not start.
        """
        self.stop()
        shutil.rmtree(self._notebook.data, ignore_errors=True)
        words = up_words(nodes=one.nodes, gpus=one.gpus, drivers=one.drivers)
        run.detach(self._notebook.data, ["up", "--data", str(self._notebook.data), *words])
        self._notebook.cluster = one.number

    def stop(self) -> bool:
        """Stop the cluster. Return True if one was running."""
        cluster = Cluster(self._notebook.data)
        if not cluster.is_running() and not cluster.holder():
            return False
        run.down(self._notebook.data)
        return True

    @contextlib.asynccontextmanager
    async def exercise(self, one: Lesson) -> AsyncIterator[Exercise]:
        """Yield the lesson's exercise on its cluster.

        Raises:
            UserError: the cluster does not run.
        """

        async def explain(pod: str) -> str:
            return await insight.pod_text(self._chosen, NAMESPACE, pod)

        async with self._chosen.client() as client:
            yield Exercise(one, client, explain)

    async def submit(self, exercise: Exercise) -> bool:
        """Apply the learner's file if it changed since the last time. Return True if it was applied.

        Raises:
            UserError, ApiError: it cannot be read, is not a manifest, or is rejected.
        """
        file = self._notebook.file(exercise.lesson)
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {file}: {error}; dralab learn reset writes it again") from error
        if not self._notebook.is_new(text):
            return False
        # If the server rejects some objects, the cluster has neither these manifests nor the previous ones.
        self._notebook.record_submission(None)
        await exercise.submit(file.name, text)
        self._notebook.record_submission(text)
        return True
