"""Wrong answers of learners: edits of a lesson's task or solution, and the advice that they get."""

from dataclasses import dataclass

from dra_lab.learn.lesson import Lesson


@dataclass(frozen=True)
class Wrong:
    """An answer that is not accepted, and a part of its advice."""

    shown: str
    edits: tuple[tuple[str, str], ...] = ()
    of: str = "solution"

    def text(self, lesson: Lesson) -> str:
        """Return the manifests."""
        text = lesson.solution if self.of == "solution" else lesson.file
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def unchanged_task(shown: str) -> Wrong:
    """Return the task without changes."""
    return Wrong(shown, of="task")


def edited_solution(shown: str, *edits: tuple[str, str]) -> Wrong:
    """Return the solution with these changes."""
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
        unchanged_task("lists no claims in spec.resourceClaims"),
        edited_solution(
            "but no container names it in resources.claims",
            ("    resources:\n      claims:\n      - name: gpu\n", ""),
        ),
        edited_solution(
            "names a claim that does not exist", ("resourceClaimName: my-gpu", "resourceClaimName: gpu")
        ),
        Wrong("That works: a DeviceClass has this name", (_LIMITS,), "task"),
        edited_solution(
            "That works: a DeviceClass", (_CLAIMS, "    resources: {limits: {nvidia.com/gpu: 1}}\n")
        ),
        edited_solution(
            "That works: a DeviceClass",
            (_CLAIMS, "    resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: gpu}]}\n"),
        ),
        Wrong(
            "There is no device plugin here",
            ((_LIMITS[0], _LIMITS[1].replace("/gpu", "/mig-1g.5gb")),),
            "task",
        ),
        edited_solution(
            "A claim is named in resourceClaimName",
            ("resourceClaimName: my-gpu", "resourceClaimTemplateName: my-gpu"),
        ),
        edited_solution(
            "no longer below source", ("resourceClaimName: my-gpu", "source: {resourceClaimName: my-gpu}")
        ),
        edited_solution(
            "must be one of the names in pod.spec.resourceClaims",
            ("      - name: gpu\n  res", "      - name: my-gpu\n  res"),
        ),
        edited_solution('RuntimeClass "nvidia" not found', (_GRACE, "  runtimeClassName: nvidia\n" + _GRACE)),
        edited_solution(
            "A nodeSelector compares labels",
            (_GRACE, "  nodeSelector: {nvidia.com/gpu.product: A100}\n" + _GRACE),
        ),
        edited_solution("These do not exist: first", ("name: first", "name: second")),
        edited_solution("more than one device", ("gpu.nvidia.com\n", "gpu.nvidia.com\n        count: 2\n")),
        edited_solution(
            "The claim my-gpu is gone",
            ("name: my-gpu\nspec", "name: your-gpu\nspec"),
            ("Name: my-gpu", "Name: your-gpu"),
        ),
        edited_solution(
            "but of another claim",
            (
                "---\n",
                "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: "
                "{name: own}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: "
                "gpu.nvidia.com}}]}}}}\n---\n",
            ),
            ("resourceClaimName: my-gpu", "resourceClaimTemplateName: own"),
        ),
        edited_solution("device class gpu.nvidia.co does not exist", ("gpu.nvidia.com", "gpu.nvidia.co")),
    ],
    2: [
        unchanged_task("Both pods name the same claim"),
        edited_solution(
            "A pod names a template that does not exist",
            ("resourceClaimTemplateName: own", "resourceClaimTemplateName: mine"),
        ),
        edited_solution(
            "A template is named in", ("resourceClaimTemplateName: own", "resourceClaimName: own")
        ),
        edited_solution(
            "more than one GPU",
            ("gpu.nvidia.com\n", "gpu.nvidia.com\n          count: 2\n"),
        ),
        edited_solution(
            "A container that does not ask for a claim",
            (_CLAIMS, ""),
        ),
        edited_solution(
            "field not declared in schema", ("spec:\n  spec:\n    devices:", "spec:\n    devices:")
        ),
        edited_solution(
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
        unchanged_task("more than one entry in resourceClaims"),
        edited_solution(
            "names no claim in its resources",
            ("    resources:\n      claims:\n      - name: gpu\n  resourceClaims:", "  resourceClaims:"),
        ),
        edited_solution("two containers of the pod, left and right", ("  - name: right", "  - name: other")),
        edited_solution(
            "That works: a DeviceClass",
            (_CLAIMS + "  - name: right", "    resources: {limits: {nvidia.com/gpu: 1}}\n  - name: right"),
        ),
        edited_solution(
            "asks for more than one device",
            (
                "deviceClassName: gpu.nvidia.com\n",
                "deviceClassName: gpu.nvidia.com\n          allocationMode: All\n",
            ),
        ),
        edited_solution(
            "asks for more than one device",
            ("deviceClassName: gpu.nvidia.com\n", "deviceClassName: gpu.nvidia.com\n          count: 2\n"),
        ),
    ],
    4: [
        unchanged_task("has no selector yet"),
        edited_solution(
            "is a way, too", (_MEMORY_SELECTOR, "          capacity: {requests: {memory: 48Gi}}\n")
        ),
        edited_solution("but not about 48Gi", ("'48Gi'", "'40Gi'")),
        edited_solution("but not about 48Gi", ("'48Gi'", "'48G'")),
        edited_solution(
            "That asks for a product",
            (_MEMORY, f"{_MEMORY} && device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        ),
        edited_solution(
            "undefined field 'memory'", ("device.capacity['gpu.nvidia.com'].memory", "device.memory")
        ),
        edited_solution(
            "no such key: memory", ("device.capacity['gpu.nvidia.com']", "device.capacity['nvidia.com']")
        ),
        edited_solution(
            "Memory is no attribute", (_MEMORY, "device.attributes['gpu.nvidia.com'].memory > 48")
        ),
        edited_solution(
            "That asks for a product",
            (_MEMORY, "device.attributes['gpu.nvidia.com'].productName.contains('H100')"),
        ),
        edited_solution(
            "found no matching overload", (_MEMORY, "device.capacity['gpu.nvidia.com'].memory > '48Gi'")
        ),
        edited_solution("not true: device.capacity", ("'48Gi'", "'96Gi'")),
    ],
    5: [
        unchanged_task("Alternatives are in firstAvailable"),
        edited_solution("The order decides", (_H100 + _TWO, _TWO + _H100)),
        edited_solution("a count of its own", (_TWO, _TWO.replace("          count: 2\n", ""))),
        edited_solution("so the H100 comes first", (_H100, "")),
        edited_solution(
            "several requests, and all of them must be met",
            ("        firstAvailable:\n" + _H100 + _TWO, _BOTH_REQUESTS),
        ),
        edited_solution(
            "several claims, and all of them must be met",
            (_H100, ""),
            (
                "  - name: gpu\n    resourceC",
                "  - {name: two, resourceClaimTemplateName: training-gpu}\n  - name: gpu\n    resourceC",
            ),
        ),
    ],
    6: [
        unchanged_task("of different cards"),
        edited_solution("No two ports of a card", ("nic.example.org/card", "nic.example.org/mac")),
        edited_solution("All ports have the same value", ("nic.example.org/card", "nic.example.org/rdma")),
        edited_solution("No device has", ("nic.example.org/card", "resource.kubernetes.io/pcieRoot")),
        edited_solution("asks for the opposite", ("matchAttribute", "distinctAttribute")),
        edited_solution("The pod has one port", ("          count: 2\n", "")),
        edited_solution(
            "The pod lists several claims",
            (_CARD, ""),
            ("          count: 2\n", ""),
            ("      - name: ports\n  res", "      - name: ports\n      - name: two\n  res"),
            (
                "    resourceClaimTemplateName: two-ports",
                "    resourceClaimTemplateName: two-ports\n  - {name: two, resourceClaimTemplateName: two-ports}",
            ),
        ),
        edited_solution("No device has the attribute", ("nic.example.org/card", "nic.example.org/board")),
        edited_solution("Invalid value", ("nic.example.org/card", "card")),
        edited_solution(
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
        unchanged_task("The trainer has a quarter"),
        edited_solution("The trainer has a quarter", ("'40Gi'", "'10Gi'")),
        edited_solution(
            "a class that does not exist",
            ("deviceClassName: gpu.example.com", "deviceClassName: mig.nvidia.com"),
        ),
        edited_solution(
            "more than one whole GPU", ("quantity('40Gi'))\n", "quantity('40Gi'))\n          count: 2\n")
        ),
        edited_solution(
            "A model has a whole GPU",
            ("resourceClaimTemplateName: any-part", "resourceClaimTemplateName: whole"),
        ),
        edited_solution(
            "no attribute full",
            (
                "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))",
                "device.attributes['gpu.example.com'].full",
            ),
        ),
        edited_solution(
            "several parts",
            (
                "          selectors:\n          - cel:\n              expression: "
                "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))\n",
                "          count: 4\n",
            ),
        ),
    ],
    8: [
        unchanged_task("names no amounts"),
        edited_solution("not the compute", ('              compute: "30"\n', "")),
        edited_solution("share the compute", ("              memory: 20Gi\n", "")),
        edited_solution("more than the GPU has", ("memory: 20Gi", "memory: 30Gi")),
        edited_solution("Note that G is not Gi", ("memory: 20Gi", "memory: 20G")),
        edited_solution("asks for several devices", (_AMOUNTS, "          count: 3\n")),
        edited_solution(
            "There is no device plugin here",
            (
                _CLAIMS + "  resourceClaims:\n  - name: gpu\n    resourceClaimTemplateName: a-share\n",
                "    resources: {limits: {nvidia.com/gpu.shared: 1}}\n",
            ),
        ),
        edited_solution("less than 20Gi", ("memory: 20Gi", "memory: 10Gi")),
        edited_solution(
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
        unchanged_task("taint example.com/fan=broken:NoSchedule is not tolerated"),
        edited_solution(
            "in the pod's spec",
            (_TOLERATION, ""),
            (_BURN_IN, _BURN_IN + "  tolerations: [{key: example.com/fan, operator: Exists}]\n"),
        ),
        edited_solution("has another key than the taint", ("key: example.com/fan", "key: fan")),
        edited_solution("The rule was changed", (_TOLERATION, _TOLERATION + _OTHER_RULE)),
        edited_solution(
            "has the healthy GPU",
            ("resourceClaimTemplateName: healthy", "resourceClaimTemplateName: other"),
            ("resourceClaimTemplateName: broken", "resourceClaimTemplateName: healthy"),
            ("resourceClaimTemplateName: other", "resourceClaimTemplateName: broken"),
        ),
        edited_solution(
            "the value must be equal", ("            operator: Exists\n", "            value: slow\n")
        ),
        edited_solution(
            "for that effect alone",
            ("operator: Exists\n", "operator: Exists\n            effect: NoExecute\n"),
        ),
        edited_solution(
            "The trainer's claim tolerates",
            (
                "          deviceClassName: gpu.nvidia.com\n---",
                "          deviceClassName: gpu.nvidia.com\n" + _TOLERATION + "---",
            ),
        ),
    ],
    10: [
        unchanged_task("a class that does not exist"),
        edited_solution(
            "names a template that does not exist",
            ("resourceClaimTemplateName: two-of", "resourceClaimTemplateName: of"),
        ),
        edited_solution(
            "does not ask for an A100",
            (
                "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-40GB'",
                "device.driver == 'gpu.nvidia.com'",
            ),
        ),
        edited_solution("nearest seen", ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB")),
        edited_solution("with one GPU and needs two", ("          count: 2\n", "")),
        edited_solution("does not ask for 40Gi", ("quantity('40Gi')", "quantity('20Gi')")),
        edited_solution(
            "with one GPU and needs two",
            ("resourceClaimTemplateName: two-of-40gi", "resourceClaimTemplateName: any-gpu"),
        ),
    ],
}
