"""The allocator under 1.37 against recorded answers of code of that version."""

from dra_recordings.alloc import agrees, answer

from tests.support.cases import each_case
from tests.support.reference import load_vectors

_BATCH = 100
# The recorded code has a change that 1.37 was released without. There, a device that claims share is
# allocated as a whole once it allows no more shares. `make compare` uses the released code.
_NOT_RELEASED = {"x470", "x510"}
_WORLDS = load_vectors("random-alloc-names-1.37.jsonl.gz")


@each_case("start", range(0, len(_WORLDS), _BATCH))
def test_allocations_in_random_worlds_with_capacity_names_agree_with_1_37(start: int) -> None:
    differing = {
        world["in"]["name"]: (ours, world["out"])
        for world in _WORLDS[start : start + _BATCH]
        if world["in"]["name"] not in _NOT_RELEASED
        and not agrees(ours := answer({**world["in"], "kubernetesVersion": "1.37"}), world["out"])
    }

    assert differing == {}
