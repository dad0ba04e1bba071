package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// history is a case: the events that a slice tracker gets one after the other.
type history struct {
	Features []string `json:"features"`
	Events   []struct {
		// Event is add, update or delete.
		Event  string          `json:"event"`
		Kind   string          `json:"kind"`
		Object json.RawMessage `json:"object"`
	} `json:"events"`
}

// patchedDevice is a device of a tracked slice with the taints that it has for the scheduler.
type patchedDevice struct {
	Name   string                    `json:"name"`
	Taints []resourceapi.DeviceTaint `json:"taints"`
}

// step is the state after an event, and the slices for which the tracker called its handler.
type step struct {
	Slices map[string][]patchedDevice `json:"slices"`
	Calls  []string                   `json:"calls"`
}

// cluster has the informers of a tracker. They are never started: events come from a case.
type cluster struct {
	slices, rules, classes *informer
}

// informer calls its handlers at once, after its store has changed.
type informer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func newInformer(kind runtime.Object) *informer {
	return &informer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, cache.Indexers{})}
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *informer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

func (i *informer) GetIndexer() cache.Indexer {
	return sortedIndexer{i.SharedIndexInformer.GetIndexer()}
}

// sortedIndexer lists objects by name. The random order of a Go map would change the order of taints at each event.
type sortedIndexer struct{ cache.Indexer }

func (s sortedIndexer) List() []any {
	objects := s.Indexer.List()
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(objectName(a), objectName(b)) })
	return objects
}

func objectName(object any) string {
	name, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		panic(err)
	}
	return name
}

func (i *informer) apply(event string, object runtime.Object) error {
	store := i.SharedIndexInformer.GetIndexer()
	old, exists, err := store.Get(object)
	if err != nil {
		return err
	}
	if exists == (event == "add") {
		return fmt.Errorf("cannot %s %s: in store: %v", event, objectName(object), exists)
	}
	switch event {
	case "add":
		err = store.Add(object)
	case "update":
		err = store.Update(object)
	case "delete":
		err = store.Delete(object)
	default:
		err = fmt.Errorf("unknown event %q", event)
	}
	if err != nil {
		return err
	}
	for _, handler := range i.handlers {
		switch event {
		case "add":
			handler.OnAdd(object, false)
		case "update":
			handler.OnUpdate(old, object)
		case "delete":
			handler.OnDelete(old)
		}
	}
	return nil
}

func answerHistory(raw json.RawMessage) (answers []any, err error) {
	var given history
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	defer func() {
		// A slice that could not be changed may have fewer devices than the changed one. Trackers panic for it.
		if caught := recover(); caught != nil {
			answers, err = []any{map[string]any{"panic": fmt.Sprint(caught)}}, nil
		}
	}()
	informers := cluster{newInformer(newSlice()), newInformer(newRule()), newInformer(&resourceapi.DeviceClass{})}
	tracker, err := startTracker(context.Background(), sets.New(given.Features...), informers)
	if err != nil {
		return nil, err
	}
	defer tracker.Stop()
	calls := []string{}
	record := cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, _ bool) { calls = append(calls, "add "+objectName(object)) },
		UpdateFunc: func(_, object any) { calls = append(calls, "update "+objectName(object)) },
		DeleteFunc: func(object any) { calls = append(calls, "delete "+objectName(object)) },
	}
	if _, err := tracker.AddEventHandler(record); err != nil {
		return nil, err
	}
	steps := []step{}
	for _, event := range given.Events {
		calls = []string{}
		target, object, err := decodeObject(informers, event.Kind, event.Object)
		if err != nil {
			return nil, err
		}
		if err := target.apply(event.Event, object); err != nil {
			return nil, err
		}
		listed, err := tracker.ListPatchedResourceSlices()
		if err != nil {
			return nil, err
		}
		patched := map[string][]patchedDevice{}
		for _, slice := range listed {
			patched[slice.Name] = listDevices(slice)
		}
		slices.Sort(calls)
		steps = append(steps, step{patched, calls})
	}
	return []any{map[string]any{"steps": steps}}, nil
}

func decodeObject(informers cluster, kind string, raw json.RawMessage) (*informer, runtime.Object, error) {
	switch kind {
	case "ResourceSlice":
		object, err := decodeSlice(raw)
		return informers.slices, object, err
	case "DeviceTaintRule":
		object := newRule()
		return informers.rules, object, json.Unmarshal(raw, object)
	case "DeviceClass":
		object := &resourceapi.DeviceClass{}
		return informers.classes, object, json.Unmarshal(raw, object)
	}
	return nil, nil, fmt.Errorf("unknown kind %q", kind)
}
