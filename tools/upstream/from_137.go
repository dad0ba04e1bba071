//go:build k137 || k138

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

func newRule() *resourceapi.DeviceTaintRule { return &resourceapi.DeviceTaintRule{} }

type ruleInformer struct{ *informer }

func (r ruleInformer) Informer() cache.SharedIndexInformer { return r.informer }

func (r ruleInformer) Lister() resourcelisters.DeviceTaintRuleLister {
	return resourcelisters.NewDeviceTaintRuleLister(r.GetIndexer())
}
