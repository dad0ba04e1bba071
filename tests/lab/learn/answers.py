"""Answers that learners give: edits of a lesson's task or solution, and what they are answered."""

from dataclasses import dataclass

from dra_lab.learn.lesson import Lesson


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
_BOTH_REQUESTS = """        exactly:
          deviceClassName: gpu.nvidia.com
          selectors:
          - cel:
              expression: device.attributes['gpu.nvidia.com'].productName.contains('H100')
      - name: two-a100
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2
"""
_AMOUNTS = """          capacity:
            requests:
              memory: 20Gi
              compute: "30"
"""
_OTHER_RULE = """---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata:
  name: gpu-0-fan
spec:
  deviceSelector:
    driver: gpu.nvidia.com
    pool: node-0
    device: gpu-1
  taint:
    key: example.com/fan
    value: broken
    effect: NoSchedule
"""


_TOLERATION = """          tolerations:
          - key: example.com/fan
            operator: Exists
"""
_BURN_IN = """  name: burn-in
spec:
"""

_CLAIMS = """    resources:
      claims:
      - name: gpu
"""
_GRACE = "  terminationGracePeriodSeconds: 0\n"
_LIMITS = (
    'nvidia-smi -L; sleep infinity"]\n',
    'nvidia-smi -L; sleep infinity"]\n    resources: {limits: {nvidia.com/gpu: 1}}\n',
)
_MEMORY_SELECTOR = f"""          selectors:
          - cel:
              expression: {_MEMORY}
"""
_CARD = "      constraints:\n      - matchAttribute: nic.example.org/card\n"
_BUS = """          selectors:
          - cel:
              expression: device.attributes['resource.kubernetes.io'].pciBusID == '0000:07:00.0'
"""

WRONG: dict[int, list[Wrong]] = {
    1: [
        unchanged("lists no claims in spec.resourceClaims"),
        edited(
            "but no container names it in resources.claims",
            ("    resources:\n      claims:\n      - name: gpu\n", ""),
        ),
        edited("names a claim that does not exist", ("resourceClaimName: my-gpu", "resourceClaimName: gpu")),
        Wrong("That works: a DeviceClass has this name", (_LIMITS,), "task"),
        edited("That works: a DeviceClass", (_CLAIMS, "    resources: {limits: {nvidia.com/gpu: 1}}\n")),
        edited(
            "That works: a DeviceClass",
            (_CLAIMS, "    resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: gpu}]}\n"),
        ),
        Wrong(
            "There is no device plugin here",
            ((_LIMITS[0], _LIMITS[1].replace("/gpu", "/mig-1g.5gb")),),
            "task",
        ),
        edited(
            "A claim is named in resourceClaimName",
            ("resourceClaimName: my-gpu", "resourceClaimTemplateName: my-gpu"),
        ),
        edited(
            "no longer below source", ("resourceClaimName: my-gpu", "source: {resourceClaimName: my-gpu}")
        ),
        edited(
            "must be one of the names in pod.spec.resourceClaims",
            ("      - name: gpu\n  res", "      - name: my-gpu\n  res"),
        ),
        edited('RuntimeClass "nvidia" not found', (_GRACE, "  runtimeClassName: nvidia\n" + _GRACE)),
        edited(
            "A nodeSelector compares labels",
            (_GRACE, "  nodeSelector: {nvidia.com/gpu.product: A100}\n" + _GRACE),
        ),
        edited("These do not exist: first", ("name: first", "name: second")),
        edited("more than one device", ("gpu.nvidia.com\n", "gpu.nvidia.com\n        count: 2\n")),
        edited(
            "The claim my-gpu is gone",
            ("name: my-gpu\nspec", "name: your-gpu\nspec"),
            ("Name: my-gpu", "Name: your-gpu"),
        ),
        edited(
            "but of another claim",
            (
                "---\n",
                "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: "
                "{name: own}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: "
                "gpu.nvidia.com}}]}}}}\n---\n",
            ),
            ("resourceClaimName: my-gpu", "resourceClaimTemplateName: own"),
        ),
        edited("device class gpu.nvidia.co does not exist", ("gpu.nvidia.com", "gpu.nvidia.co")),
    ],
    2: [
        unchanged("Both pods name the same claim"),
        edited(
            "A pod names a template that does not exist",
            ("resourceClaimTemplateName: own", "resourceClaimTemplateName: mine"),
        ),
        edited("A template is named in", ("resourceClaimTemplateName: own", "resourceClaimName: own")),
        edited(
            "more than one GPU",
            ("gpu.nvidia.com\n", "gpu.nvidia.com\n          count: 2\n"),
        ),
        edited(
            "A container that does not ask for a claim",
            (_CLAIMS, ""),
        ),
        edited("field not declared in schema", ("spec:\n  spec:\n    devices:", "spec:\n    devices:")),
        edited(
            "by a claim that is written by hand",
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
        edited("two containers of the pod, left and right", ("  - name: right", "  - name: other")),
        edited(
            "That works: a DeviceClass",
            (_CLAIMS + "  - name: right", "    resources: {limits: {nvidia.com/gpu: 1}}\n  - name: right"),
        ),
        edited(
            "asks for more than one device",
            (
                "deviceClassName: gpu.nvidia.com\n",
                "deviceClassName: gpu.nvidia.com\n          allocationMode: All\n",
            ),
        ),
        edited(
            "asks for more than one device",
            ("deviceClassName: gpu.nvidia.com\n", "deviceClassName: gpu.nvidia.com\n          count: 2\n"),
        ),
    ],
    4: [
        unchanged("has no selector yet"),
        edited("is a way, too", (_MEMORY_SELECTOR, "          capacity: {requests: {memory: 48Gi}}\n")),
        edited("but not about 48Gi", ("'48Gi'", "'40Gi'")),
        edited("but not about 48Gi", ("'48Gi'", "'48G'")),
        edited(
            "That asks for a product",
            (_MEMORY, f"{_MEMORY} && device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        ),
        edited("undefined field 'memory'", ("device.capacity['gpu.nvidia.com'].memory", "device.memory")),
        edited("no such key: memory", ("device.capacity['gpu.nvidia.com']", "device.capacity['nvidia.com']")),
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
        edited(
            "several requests, and all of them must be met",
            ("        firstAvailable:\n" + _H100 + _TWO, _BOTH_REQUESTS),
        ),
        edited(
            "several claims, and all of them must be met",
            (_H100, ""),
            (
                "  - name: gpu\n    resourceC",
                "  - {name: two, resourceClaimTemplateName: training-gpu}\n  - name: gpu\n    resourceC",
            ),
        ),
    ],
    6: [
        unchanged("of different cards"),
        edited("No two ports of a card", ("nic.example.org/card", "nic.example.org/mac")),
        edited("All ports have the same value", ("nic.example.org/card", "nic.example.org/rdma")),
        edited("No device has", ("nic.example.org/card", "resource.kubernetes.io/pcieRoot")),
        edited("asks for the opposite", ("matchAttribute", "distinctAttribute")),
        edited("The pod has one port", ("          count: 2\n", "")),
        edited(
            "The pod lists several claims",
            (_CARD, ""),
            ("          count: 2\n", ""),
            ("      - name: ports\n  res", "      - name: ports\n      - name: two\n  res"),
            (
                "    resourceClaimTemplateName: two-ports",
                "    resourceClaimTemplateName: two-ports\n  - {name: two, resourceClaimTemplateName: two-ports}",
            ),
        ),
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
        edited("The trainer has a quarter", ("'40Gi'", "'10Gi'")),
        edited(
            "a class that does not exist",
            ("deviceClassName: gpu.example.com", "deviceClassName: mig.nvidia.com"),
        ),
        edited("more than one whole GPU", ("quantity('40Gi'))\n", "quantity('40Gi'))\n          count: 2\n")),
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
        edited("share the compute", ("              memory: 20Gi\n", "")),
        edited("more than the GPU has", ("memory: 20Gi", "memory: 30Gi")),
        edited("Note that G is not Gi", ("memory: 20Gi", "memory: 20G")),
        edited("asks for several devices", (_AMOUNTS, "          count: 3\n")),
        edited(
            "There is no device plugin here",
            (
                _CLAIMS + "  resourceClaims:\n  - name: gpu\n    resourceClaimTemplateName: a-share\n",
                "    resources: {limits: {nvidia.com/gpu.shared: 1}}\n",
            ),
        ),
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
        edited("has another key than the taint", ("key: example.com/fan", "key: fan")),
        edited("The rule was changed", (_TOLERATION, _TOLERATION + _OTHER_RULE)),
        edited(
            "has the healthy GPU",
            ("resourceClaimTemplateName: healthy", "resourceClaimTemplateName: other"),
            ("resourceClaimTemplateName: broken", "resourceClaimTemplateName: healthy"),
            ("resourceClaimTemplateName: other", "resourceClaimTemplateName: broken"),
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
        edited("does not ask for 40Gi", ("quantity('40Gi')", "quantity('20Gi')")),
        edited(
            "with one GPU and needs two",
            ("resourceClaimTemplateName: two-of-40gi", "resourceClaimTemplateName: any-gpu"),
        ),
    ],
}
