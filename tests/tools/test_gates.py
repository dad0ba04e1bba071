from tools.gates.__main__ import format_gates, go_module


def test_gates_are_formatted_like_the_pages() -> None:
    gates = {
        "B": {"stage": "", "on": True, "locked": True, "needs": None},
        "A": {"stage": "ALPHA", "on": False, "locked": False, "needs": ["D", "B"]},
        "AllAlpha": {"stage": "ALPHA", "on": False, "locked": False, "needs": None},
    }
    assert format_gates(gates) == ["A Alpha off < B D", "B GA on locked"]


def test_modules_of_the_release_are_replaced_by_released_ones() -> None:
    requirements = "go 1.26.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.1.0\n)\n"
    assert go_module("1.37.0", requirements).splitlines()[1:] == [
        "go 1.26.0",
        "require k8s.io/kubernetes v1.37.0",
        "replace k8s.io/api => k8s.io/api v0.37.0",
    ]
