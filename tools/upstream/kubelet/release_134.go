//go:build k134

package main

import drapb "k8s.io/kubelet/pkg/apis/dra/v1"

// convertDevice drops the id of a share, which this release does not know.
func convertDevice(given device) *drapb.Device {
	return &drapb.Device{
		PoolName: given.Pool, DeviceName: given.Device, RequestNames: given.Requests, CDIDeviceIDs: given.CDI,
	}
}
