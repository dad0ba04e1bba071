//go:build k134

package main

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func celFeatures(enabled sets.Set[string]) cel.Features {
	return cel.Features{EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity")}
}

// chooseAllocator does nothing: this release always picks the allocator by the features.
func chooseAllocator(string) {}

// failedOnNode is false: this release does not mark such errors.
func failedOnNode(error) bool { return false }

func allocatorFeatures(enabled sets.Set[string]) structured.Features {
	return structured.Features{
		AdminAccess:          enabled.Has("DRAAdminAccess"),
		ConsumableCapacity:   enabled.Has("DRAConsumableCapacity"),
		DeviceTaints:         enabled.Has("DRADeviceTaints"),
		PartitionableDevices: enabled.Has("DRAPartitionableDevices"),
		PrioritizedList:      enabled.Has("DRAPrioritizedList"),
		DeviceBinding:        enabled.Has("DRADeviceBindingConditions"),
		DeviceStatus:         enabled.Has("DRADeviceBindingConditions"),
	}
}
