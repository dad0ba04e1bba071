//go:build !k134

package main

import drapb "k8s.io/kubelet/pkg/apis/dra/v1"

func convertDevice(given device) *drapb.Device {
	return &drapb.Device{
		PoolName: given.Pool, DeviceName: given.Device, ShareId: given.ShareID,
		RequestNames: given.Requests, CdiDeviceIds: given.CDI,
	}
}
