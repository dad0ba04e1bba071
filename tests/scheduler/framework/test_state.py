"""CycleState, and the return value of PostFilter."""

from collections.abc import Mapping

from dra_scheduler.framework.runtime import Framework
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Code, Status, unschedulable
from dra_shared.api.pod import Pod

from tests.scheduler.objects import pod


def test_the_first_reason_to_cancel_a_scheduling_attempt_is_kept() -> None:
    state = CycleState()
    state.deadline.cancel("the pod was deleted")
    state.deadline.cancel("the scheduler is stopping")
    assert state.deadline.cancelled == "the pod was deleted"


def test_attempts_for_equal_pods_share_only_precomputed_data() -> None:
    shared: dict[str, object] = {}
    one, other = CycleState(shared=shared), CycleState(shared=shared)
    one.sharing.data["Plugin"] = "found"
    one.sharing.allowed = False
    one.write("Plugin", "mine")
    assert other.sharing.data == {"Plugin": "found"}
    assert other.sharing.allowed
    assert other.read("Plugin", str) is None


class _PostFilter:
    def __init__(self, name: str, nominated: str | None, status: Status) -> None:
        self.name = name
        self.calls = 0
        self._result = nominated, status

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[str | None, Status]:
        self.calls += 1
        return self._result


async def test_post_filter_keeps_a_nomination_that_later_plugins_do_not_change() -> None:
    plugins = (
        _PostFilter("A", "", unschedulable("none fits")),
        _PostFilter("B", None, unschedulable("nor now")),
    )
    nominated, status = await Framework(plugins).post_filter(CycleState(), pod("p"), {})
    assert (nominated, status.code, status.reasons) == ("", Code.UNSCHEDULABLE, ("none fits", "nor now"))


async def test_post_filter_ends_with_the_first_success() -> None:
    plugins = _PostFilter("A", "node-1", Status(Code.SUCCESS)), _PostFilter("B", "", unschedulable("no"))
    nominated, status = await Framework(plugins).post_filter(CycleState(), pod("p"), {})
    assert (nominated, status.plugin) == ("node-1", "A")
    assert not plugins[1].calls
