//go:build !k138

package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
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

func newSlice() *resourceapi.ResourceSlice { return &resourceapi.ResourceSlice{} }

func decodeSlice(raw json.RawMessage) (*resourceapi.ResourceSlice, error) {
	slice := newSlice()
	return slice, json.Unmarshal(raw, slice)
}

func listDevices(slice *resourceapi.ResourceSlice) []patchedDevice {
	found := []patchedDevice{}
	for _, device := range slice.Spec.Devices {
		found = append(found, patchedDevice{device.Name, device.Taints})
	}
	return found
}

type sliceInformer struct{ *informer }

func (s sliceInformer) Informer() cache.SharedIndexInformer { return s.informer }

func (s sliceInformer) Lister() resourcelisters.ResourceSliceLister {
	return resourcelisters.NewResourceSliceLister(s.GetIndexer())
}
