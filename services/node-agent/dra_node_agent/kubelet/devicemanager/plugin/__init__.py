"""The protocol between kubelet and device plugins, v1beta1 (pkg/kubelet/cm/devicemanager/plugin/v1beta1)."""
