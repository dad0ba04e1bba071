//go:build k134

package main

import (
	"context"

	ruleapi "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/util/sets"
	rulelisters "k8s.io/client-go/listers/resource/v1alpha3"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
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

func newRule() *ruleapi.DeviceTaintRule { return &ruleapi.DeviceTaintRule{} }

type ruleInformer struct{ *informer }

func (r ruleInformer) Informer() cache.SharedIndexInformer { return r.informer }

func (r ruleInformer) Lister() rulelisters.DeviceTaintRuleLister {
	return rulelisters.NewDeviceTaintRuleLister(r.GetIndexer())
}

func startTracker(ctx context.Context, enabled sets.Set[string], informers cluster) (*tracker.Tracker, error) {
	return tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaints:       enabled.Has("DRADeviceTaints"),
		EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity"),
		SliceInformer:            sliceInformer{informers.slices},
		TaintInformer:            ruleInformer{informers.rules},
		ClassInformer:            classInformer{informers.classes},
	})
}
