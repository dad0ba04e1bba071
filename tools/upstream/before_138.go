//go:build !k138

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

func addShare(state *structured.AllocatedState, id deviceID) {
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id.upstream(), id.ShareID))
}

func newAllocator(
	ctx context.Context, features structured.Features, state structured.AllocatedState, classes classLister,
	slices []*resourceapi.ResourceSlice, cache *cel.Cache,
) (structured.Allocator, error) {
	return structured.NewAllocator(ctx, features, state, classes, slices, cache)
}

func celDevice(given expression) (cel.Device, error) {
	return cel.Device{
		Driver:                   given.Driver,
		Attributes:               given.Device.Attributes,
		Capacity:                 given.Device.Capacity,
		AllowMultipleAllocations: given.Device.AllowMultipleAllocations,
	}, nil
}
