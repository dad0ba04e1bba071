"""A bounded set of uids that forgets the oldest."""

from collections import OrderedDict


class RecentUids:
    """The uids that were added last. The oldest is forgotten when there are more than ``limit``."""

    def __init__(self, limit: int = 500) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids
