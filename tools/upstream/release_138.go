//go:build k138

package main

import (
	"context"
	"encoding/json"
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	draapi "k8s.io/dynamic-resource-allocation/api"
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

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.DeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

func addShare(state *structured.AllocatedState, id deviceID) {
	state.AllocatedSharedDeviceIDs.Insert(id.upstream())
}

// convert returns a slice in the form that informers of 1.38 cache.
func convert(slice *resourceapi.ResourceSlice) (*draapi.ResourceSlice, error) {
	converted := &draapi.ResourceSlice{}
	return converted, draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, converted, nil)
}

func newAllocator(
	ctx context.Context, features structured.Features, state structured.AllocatedState, classes classLister,
	slices []*resourceapi.ResourceSlice, cache *cel.Cache,
) (structured.Allocator, error) {
	converted := make([]*draapi.ResourceSlice, 0, len(slices))
	for _, slice := range slices {
		one, err := convert(slice)
		if err != nil {
			return nil, err
		}
		converted = append(converted, one)
	}
	return structured.NewAllocator(ctx, features, state, classes, converted, cache)
}

func celDevice(given expression) (cel.Device, error) {
	slice, err := convert(&resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: given.Driver,
		Devices: []resourceapi.Device{{
			Attributes:               given.Device.Attributes,
			Capacity:                 given.Device.Capacity,
			AllowMultipleAllocations: given.Device.AllowMultipleAllocations,
		}},
	}})
	if err != nil {
		return cel.Device{}, err
	}
	device := slice.Spec.Devices[0]
	return cel.Device{
		Driver:                   given.Driver,
		LookupUniqueString:       slice.LookupUniqueString,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
	}, nil
}

func newSlice() *draapi.ResourceSlice { return &draapi.ResourceSlice{} }

func decodeSlice(raw json.RawMessage) (*draapi.ResourceSlice, error) {
	slice := &resourceapi.ResourceSlice{}
	if err := json.Unmarshal(raw, slice); err != nil {
		return nil, err
	}
	return convert(slice)
}

func listDevices(slice *draapi.ResourceSlice) []patchedDevice {
	found := []patchedDevice{}
	for _, device := range slice.Spec.Devices {
		found = append(found, patchedDevice{device.Name.String(), device.Taints})
	}
	return found
}

func startTracker(ctx context.Context, enabled sets.Set[string], informers cluster) (*tracker.Tracker, error) {
	return tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   enabled.HasAll("DRADeviceTaints", "DRADeviceTaintRules"),
		EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity"),
		SliceLister:              draapi.NewResourceSliceLister(informers.slices.GetIndexer()),
		SliceInformer:            cache.NewTypedSharedIndexInformer[*draapi.ResourceSlice](informers.slices),
		TaintInformer:            resourceinformers.ToTypedDeviceTaintRuleInformer(ruleInformer{informers.rules}),
	})
}
