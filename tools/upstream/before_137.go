//go:build !k137 && !k138

package main

import (
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

type classInformer struct{ *informer }

func (c classInformer) Informer() cache.SharedIndexInformer { return c.informer }

func (c classInformer) Lister() resourcelisters.DeviceClassLister {
	return resourcelisters.NewDeviceClassLister(c.GetIndexer())
}
