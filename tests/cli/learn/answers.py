"""Answers that learners give: edits of a lesson's task or solution, and what they are answered."""

from dataclasses import dataclass

from dra_cli.learn.lesson import Lesson


@dataclass(frozen=True)
class Wrong:
    """An answer that is not accepted, and a part of what is shown then."""

    shown: str
    edits: tuple[tuple[str, str], ...] = ()
    of: str = "solution"

    def text(self, lesson: Lesson) -> str:
        """The manifests."""
        text = lesson.solution if self.of == "solution" else lesson.file
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def unchanged(shown: str) -> Wrong:
    """The task as it was."""
    return Wrong(shown, of="task")


def edited(shown: str, *edits: tuple[str, str]) -> Wrong:
    """The solution with these changes."""
    return Wrong(shown, edits)


_MEMORY = "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('48Gi'))"
_H100 = """        - name: h100
          deviceClassName: gpu.nvidia.com
          selectors:
          - cel:
              expression: device.attributes['gpu.nvidia.com'].productName.contains('H100')
"""
_TWO = """        - name: two-a100
          deviceClassName: gpu.nvidia.com
          count: 2
"""
_AMOUNTS = """          capacity:
            requests:
              memory: 20Gi
              compute: "30"
"""
_TOLERATION = """          tolerations:
          - key: example.com/fan
            operator: Exists
"""
_BURN_IN = """  name: burn-in
spec:
"""

WRONG: dict[int, list[Wrong]] = {
    1: [
        unchanged("lists no claims in spec.resourceClaims"),
        edited(
            "its container main does not ask for it",
            ("    resources:\n      claims:\n      - name: gpu\n", ""),
        ),
        edited("names a claim that does not exist", ("resourceClaimName: my-gpu", "resourceClaimName: gpu")),
        edited("device class gpu.nvidia.co does not exist", ("gpu.nvidia.com", "gpu.nvidia.co")),
    ],
    2: [
        unchanged("Both pods name the same claim"),
        edited(
            "A pod names a template that does not exist",
            ("resourceClaimTemplateName: own", "resourceClaimTemplateName: mine"),
        ),
        edited("field not declared in schema", ("spec:\n  spec:\n    devices:", "spec:\n    devices:")),
        edited(
            "claims written by hand",
            ("kind: ResourceClaimTemplate", "kind: ResourceClaim"),
            (
                "spec:\n  spec:\n    devices:\n      requests:\n      - name: gpu\n        exactly:\n"
                "          deviceClassName: gpu.nvidia.com\n",
                "spec: &asked\n  devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}\n"
                "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: two}, spec: {devices: "
                "{requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}\n",
            ),
            ("resourceClaimTemplateName: own\n---", "resourceClaimName: own\n---"),
            ("resourceClaimTemplateName: own\n", "resourceClaimName: two\n"),
        ),
    ],
    3: [
        unchanged("more than one entry in resourceClaims"),
        edited(
            "names no claim in its resources",
            ("    resources:\n      claims:\n      - name: gpu\n  resourceClaims:", "  resourceClaims:"),
        ),
        edited(
            "asks for more than one device",
            ("deviceClassName: gpu.nvidia.com\n", "deviceClassName: gpu.nvidia.com\n          count: 2\n"),
        ),
    ],
    4: [
        unchanged("has no selector yet"),
        edited("Memory is no attribute", (_MEMORY, "device.attributes['gpu.nvidia.com'].memory > 48")),
        edited(
            "That asks for a product",
            (_MEMORY, "device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        ),
        edited("found no matching overload", (_MEMORY, "device.capacity['gpu.nvidia.com'].memory > '48Gi'")),
        edited("not true: device.capacity", ("'48Gi'", "'96Gi'")),
    ],
    5: [
        unchanged("Alternatives are in firstAvailable"),
        edited("The order decides", (_H100 + _TWO, _TWO + _H100)),
        edited("a count of its own", (_TWO, _TWO.replace("          count: 2\n", ""))),
        edited("so the H100 comes first", (_H100, "")),
    ],
    6: [
        unchanged("of different cards"),
        edited("No two ports of a card", ("nic.example.org/card", "nic.example.org/mac")),
        edited("No device has the attribute", ("nic.example.org/card", "nic.example.org/board")),
        edited("Invalid value", ("nic.example.org/card", "card")),
        edited(
            "only because a selector names it",
            ("      constraints:\n      - matchAttribute: nic.example.org/card\n", ""),
            (
                "count: 2\n",
                "count: 2\n          selectors:\n          - cel: {expression: \"device.attributes['nic.example.org']."
                "mac.startsWith('02:00:00:00:01')\"}\n",
            ),
        ),
    ],
    7: [
        unchanged("The trainer has a quarter"),
        edited(
            "A model has a whole GPU",
            ("resourceClaimTemplateName: any-part", "resourceClaimTemplateName: whole"),
        ),
        edited(
            "no attribute full",
            (
                "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))",
                "device.attributes['gpu.example.com'].full",
            ),
        ),
        edited(
            "several parts",
            (
                "          selectors:\n          - cel:\n              expression: "
                "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))\n",
                "          count: 4\n",
            ),
        ),
    ],
    8: [
        unchanged("names no amounts"),
        edited("not the compute", ('              compute: "30"\n', "")),
        edited("more than the GPU has", ("memory: 20Gi", "memory: 30Gi")),
        edited("less than 20Gi", ("memory: 20Gi", "memory: 10Gi")),
        edited(
            "share a claim",
            ("kind: ResourceClaimTemplate", "kind: ResourceClaim"),
            (
                "spec:\n  spec:\n    devices:\n      requests:\n      - name: gpu\n        exactly:\n"
                "          deviceClassName: gpu.example.com\n" + _AMOUNTS,
                "spec:\n  devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}\n",
            ),
            ("resourceClaimTemplateName", "resourceClaimName"),
        ),
    ],
    9: [
        unchanged("taint example.com/fan=broken:NoSchedule is not tolerated"),
        edited(
            "in the pod's spec",
            (_TOLERATION, ""),
            (_BURN_IN, _BURN_IN + "  tolerations: [{key: example.com/fan, operator: Exists}]\n"),
        ),
        edited("the value must be equal", ("            operator: Exists\n", "            value: slow\n")),
        edited(
            "for that effect alone",
            ("operator: Exists\n", "operator: Exists\n            effect: NoExecute\n"),
        ),
        edited(
            "The trainer's claim tolerates",
            (
                "          deviceClassName: gpu.nvidia.com\n---",
                "          deviceClassName: gpu.nvidia.com\n" + _TOLERATION + "---",
            ),
        ),
    ],
    10: [
        unchanged("a class that does not exist"),
        edited(
            "names a template that does not exist",
            ("resourceClaimTemplateName: two-of", "resourceClaimTemplateName: of"),
        ),
        edited(
            "does not ask for an A100",
            (
                "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-40GB'",
                "device.driver == 'gpu.nvidia.com'",
            ),
        ),
        edited("nearest seen", ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB")),
        edited("with one GPU and needs two", ("          count: 2\n", "")),
    ],
}
