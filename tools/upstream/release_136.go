//go:build k136

package main

import (
	"context"
	"errors"

	ruleapi "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/util/sets"
	rulelisters "k8s.io/client-go/listers/resource/v1beta2"
	"k8s.io/client-go/tools/cache"
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
		AdminAccess:            enabled.Has("DRAAdminAccess"),
		ConsumableCapacity:     enabled.Has("DRAConsumableCapacity"),
		DeviceTaints:           enabled.Has("DRADeviceTaints"),
		PartitionableDevices:   enabled.Has("DRAPartitionableDevices"),
		PrioritizedList:        enabled.Has("DRAPrioritizedList"),
		DeviceBindingAndStatus: enabled.Has("DRADeviceBindingConditions"),
		ListTypeAttributes:     enabled.Has("DRAListTypeAttributes"),
	}
}

// newRule returns a rule of v1alpha3. The tracker of this release watches v1beta2, but expects v1alpha3, and panics for
// the rules that it watches.
func newRule() *ruleapi.DeviceTaintRule { return &ruleapi.DeviceTaintRule{} }

type ruleInformer struct{ *informer }

func (r ruleInformer) Informer() cache.SharedIndexInformer { return r.informer }

func (r ruleInformer) Lister() rulelisters.DeviceTaintRuleLister {
	return rulelisters.NewDeviceTaintRuleLister(r.GetIndexer())
}

func startTracker(ctx context.Context, enabled sets.Set[string], informers cluster) (*tracker.Tracker, error) {
	return tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   enabled.HasAll("DRADeviceTaints", "DRADeviceTaintRules"),
		EnableConsumableCapacity: enabled.Has("DRAConsumableCapacity"),
		SliceInformer:            sliceInformer{informers.slices},
		TaintInformer:            ruleInformer{informers.rules},
		ClassInformer:            classInformer{informers.classes},
	})
}
