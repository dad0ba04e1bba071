"""Manifests for these tests."""

POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: any, command: [sh, -c, nvidia-smi -L; sleep infinity], resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""
