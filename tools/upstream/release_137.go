//go:build k137

package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/sets"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
)

func celFeatures(enabled sets.Set[string]) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity"),
		EnableListTypeAttributes: enabled.Has("DRAListTypeAttributes"),
	}
}

// chooseAllocator makes the next allocators those of one package, or those that upstream picks if name is empty.
func chooseAllocator(name string) {
	if name == "" {
		structured.EnableAllocators()
		return
	}
	structured.EnableAllocators(name)
}

func failedOnNode(err error) bool { return errors.Is(err, structured.ErrFailedAllocationOnNode) }

func allocatorFeatures(enabled sets.Set[string]) structured.Features {
	return structured.Features{
		AdminAccess:             enabled.Has("DRAAdminAccess"),
		ConsumableCapacity:      enabled.Has("DRAConsumableCapacity"),
		DeviceTaints:            enabled.Has("DRADeviceTaints"),
		PartitionableDevices:    enabled.Has("DRAPartitionableDevices"),
		PrioritizedList:         enabled.Has("DRAPrioritizedList"),
		DeviceBindingAndStatus:  enabled.Has("DRADeviceBindingConditions"),
		ListTypeAttributes:      enabled.Has("DRAListTypeAttributes"),
		CompatibilityGroups:     enabled.Has("DRADeviceCompatibilityGroups"),
		DerivedAttributes:       enabled.Has("DRADerivedAttributes"),
		FractionalCapacityRange: enabled.Has("DRAFractionalCapacityRange"),
		OptionalNodeOperations:  enabled.Has("DRAOptionalNodeOperations"),
	}
}

func startTracker(ctx context.Context, enabled sets.Set[string], informers cluster) (*tracker.Tracker, error) {
	return tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   enabled.HasAll("DRADeviceTaints", "DRADeviceTaintRules"),
		EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity"),
		SliceInformer:            resourceinformers.ToTypedResourceSliceInformer(sliceInformer{informers.slices}),
		TaintInformer:            resourceinformers.ToTypedDeviceTaintRuleInformer(ruleInformer{informers.rules}),
	})
}
