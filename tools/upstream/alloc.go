package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	// Some allocators go through pools in the random order of a Go map. This many runs of the same case see each order
	// of a few pools.
	runs = 48
	// A search that takes longer counts as not answered.
	searchTimeout = 5 * time.Second
)

// world is a case: a node, the claims to allocate on it, and all that the allocator knows of the cluster.
type world struct {
	Implementation string                      `json:"implementation"`
	Features       []string                    `json:"features"`
	Node           *v1.Node                    `json:"node"`
	Classes        []resourceapi.DeviceClass   `json:"classes"`
	Slices         []resourceapi.ResourceSlice `json:"slices"`
	Claims         []resourceapi.ResourceClaim `json:"claims"`
	Allocated      struct {
		Devices         []deviceID `json:"devices"`
		SharedDeviceIDs []deviceID `json:"sharedDeviceIDs"`
		Aggregated      []deviceID `json:"aggregatedCapacity"`
	} `json:"allocated"`
}

type deviceID struct {
	Driver           string                                          `json:"driver"`
	Pool             string                                          `json:"pool"`
	Device           string                                          `json:"device"`
	ShareID          *types.UID                                      `json:"shareID"`
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity"`
}

func (id deviceID) upstream() structured.DeviceID {
	return structured.MakeDeviceID(id.Driver, id.Pool, id.Device)
}

// allocation is the answer to a world.
type allocation struct {
	Supported    bool                           `json:"supported"`
	Allocated    bool                           `json:"allocated"`
	Results      []resourceapi.AllocationResult `json:"results"`
	Error        string                         `json:"error,omitempty"`
	FailedOnNode bool                           `json:"failedOnNode,omitempty"`
	Panic        string                         `json:"panic,omitempty"`
	Timeout      bool                           `json:"timeout,omitempty"`
}

type classLister map[string]*resourceapi.DeviceClass

func (classes classLister) List() ([]*resourceapi.DeviceClass, error) {
	list := make([]*resourceapi.DeviceClass, 0, len(classes))
	for _, class := range classes {
		list = append(list, class)
	}
	return list, nil
}

func (classes classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := classes[name]; class != nil {
		return class, nil
	}
	// The recordings were made with this text.
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "not found")
}

func answerAllocation(raw json.RawMessage) ([]any, error) {
	var given world
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	enabled := sets.New(given.Features...)
	chooseAllocator(given.Implementation)
	var outcomes []any
	seen := sets.New[string]()
	for range runs {
		answer := given.allocate(enabled)
		text, err := json.Marshal(withoutShareIDs(answer))
		if err != nil {
			return nil, err
		}
		if !seen.Has(string(text)) {
			seen.Insert(string(text))
			outcomes = append(outcomes, answer)
		}
		if !answer.Supported || answer.Timeout || !given.mayVary() {
			break
		}
	}
	return outcomes, nil
}

// mayVary is true if there are several pools, or several requested capacities, whose order may change the answer.
func (given *world) mayVary() bool {
	for _, claim := range given.Claims {
		for _, request := range claim.Spec.Devices.Requests {
			if request.Exactly != nil && request.Exactly.Capacity != nil && len(request.Exactly.Capacity.Requests) > 1 {
				return true
			}
			for _, part := range request.FirstAvailable {
				if part.Capacity != nil && len(part.Capacity.Requests) > 1 {
					return true
				}
			}
		}
	}
	pools := sets.New[string]()
	for _, slice := range given.Slices {
		pools.Insert(slice.Spec.Driver + "/" + slice.Spec.Pool.Name)
	}
	return pools.Len() > 1
}

func (given *world) state() structured.AllocatedState {
	state := emptyState()
	for _, id := range given.Allocated.Devices {
		state.AllocatedDevices.Insert(id.upstream())
	}
	for _, id := range given.Allocated.SharedDeviceIDs {
		addShare(&state, id)
	}
	for _, id := range given.Allocated.Aggregated {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id.upstream(), id.ConsumedCapacity))
	}
	return state
}

func (given *world) allocate(enabled sets.Set[string]) (answer allocation) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = allocation{Supported: true, Panic: fmt.Sprint(problem)}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), searchTimeout)
	defer cancel()
	classes := classLister{}
	for index := range given.Classes {
		classes[given.Classes[index].Name] = given.Classes[index].DeepCopy()
	}
	slices := make([]*resourceapi.ResourceSlice, 0, len(given.Slices))
	for index := range given.Slices {
		slices = append(slices, given.Slices[index].DeepCopy())
	}
	claims := make([]*resourceapi.ResourceClaim, 0, len(given.Claims))
	for index := range given.Claims {
		claims = append(claims, given.Claims[index].DeepCopy())
	}
	allocator, err := newAllocator(
		ctx, allocatorFeatures(enabled), given.state(), classes, slices, cel.NewCache(10, celFeatures(enabled)))
	if err != nil {
		// No allocator has all of these features.
		return allocation{}
	}
	results, err := allocator.Allocate(ctx, given.Node, claims)
	answer.Supported = true
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		answer.Timeout = true
	case err != nil:
		answer.Error = err.Error()
		answer.FailedOnNode = failedOnNode(err)
	case results != nil:
		answer.Allocated = true
		answer.Results = results
	}
	return answer
}

// withoutShareIDs returns the answer without the random IDs of shares, so that equal answers compare as equal.
func withoutShareIDs(answer allocation) allocation {
	plain := answer
	plain.Results = nil
	for _, result := range answer.Results {
		copied := result.DeepCopy()
		for index := range copied.Devices.Results {
			copied.Devices.Results[index].ShareID = nil
		}
		plain.Results = append(plain.Results, *copied)
	}
	return plain
}
