// Command kubelet runs the kubelet's DRA manager of one Kubernetes release, and prints its state after each step of a case.
//
// It reads and writes lines like the program of the parent folder. A case has pods, claims and steps:
//
//	kubelet prepare <cases.jsonl >answers.jsonl
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"

	"dralab/upstream/cases"
)

const stateFile = "dra_manager_state"

// node is a case: a node on which pods with claims are created and deleted.
type node struct {
	FeatureGates map[string]bool             `json:"featureGates"`
	Pods         []v1.Pod                    `json:"pods"`
	Claims       []resourceapi.ResourceClaim `json:"claims"`
	Drivers      []string                    `json:"drivers"`
	Steps        []step                      `json:"steps"`
}

// step is an operation. Drivers answer calls by Behavior, or prepare one device for each claim.
type step struct {
	// Operation is prepare, unprepare, resources, restart, register, deregister, setClaim, deleteClaim or setPod.
	Operation string                     `json:"operation"`
	Pod       int                        `json:"pod"`
	Driver    string                     `json:"driver"`
	Claim     *resourceapi.ResourceClaim `json:"claim"`
	NewPod    *v1.Pod                    `json:"newPod"`
	Behavior  map[string]behavior        `json:"behavior"`
}

// result is the state after a step.
type result struct {
	Error      string              `json:"error,omitempty"`
	Calls      []call              `json:"calls"`
	Checkpoint any                 `json:"checkpoint"`
	Devices    map[string][]string `json:"devices,omitempty"`
	// InUse has the pods that may have claims to unprepare.
	InUse []string `json:"inUse"`
}

func main() {
	cases.Main(map[string]cases.Answerer{"prepare": answerNode})
}

func answerNode(raw json.RawMessage) (answers []any, err error) {
	// A claim that changed its drivers has none to call.
	defer func() {
		if caught := recover(); caught != nil {
			answers, err = []any{map[string]string{"panic": fmt.Sprint(caught)}}, nil
		}
	}()
	var given node
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	if err := setFeatures(given.FeatureGates); err != nil {
		return nil, err
	}
	results, err := given.run()
	if err != nil {
		return nil, err
	}
	return []any{map[string]any{"steps": results}}, nil
}

// unset has every gate at its default.
var unset = utilfeature.DefaultMutableFeatureGate.DeepCopy()

func setFeatures(gates map[string]bool) error {
	fresh := unset.DeepCopy()
	utilfeature.DefaultMutableFeatureGate = fresh
	utilfeature.DefaultFeatureGate = fresh
	return fresh.SetFromMap(gates)
}

func (given *node) run() ([]result, error) {
	folder, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	objects := []runtime.Object{}
	for i := range given.Claims {
		objects = append(objects, &given.Claims[i])
	}
	kubelet := &kubelet{folder: folder, client: fake.NewSimpleClientset(objects...), registered: map[string]bool{}}
	for _, driver := range given.Drivers {
		kubelet.registered[driver] = true
	}
	if err := kubelet.start(); err != nil {
		return nil, err
	}
	defer func() { kubelet.stop() }()
	results := []result{}
	for _, step := range given.Steps {
		one, err := kubelet.take(step, given.Pods)
		if err != nil {
			return nil, err
		}
		results = append(results, one)
	}
	return results, nil
}

// kubelet is a DRA manager that can be started again with the same files.
type kubelet struct {
	folder     string
	client     *fake.Clientset
	registered map[string]bool
	manager    *dra.Manager
	cancel     context.CancelFunc
}

type unready struct{}

func (unready) AddSource(string) {}

// AllReady is false, so that claims of past pods are not unprepared in the background.
func (unready) AllReady() bool { return false }

func (k *kubelet) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	manager, err := dra.NewManager(klog.Background(), k.client, k.folder)
	if err != nil {
		return err
	}
	getNode := func(context.Context) (*v1.Node, error) { return nil, errors.New("unknown") }
	if err := manager.Start(ctx, func() []*v1.Pod { return nil }, getNode, unready{}); err != nil {
		return err
	}
	k.manager = manager
	names := []string{}
	for driver := range k.registered {
		names = append(names, driver)
	}
	slices.Sort(names)
	for _, driver := range names {
		if err := k.register(driver); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) stop() {
	k.cancel()
	k.manager.GetWatcherHandler().(*plugin.DRAPluginManager).Stop()
}

func (k *kubelet) take(step step, pods []v1.Pod) (result, error) {
	ctx := context.Background()
	if step.Pod >= len(pods) {
		return result{}, fmt.Errorf("there is no pod %d", step.Pod)
	}
	behave(step.Behavior)
	var failure error
	devices := map[string][]string{}
	claims := k.client.ResourceV1().ResourceClaims("default")
	switch step.Operation {
	case "prepare":
		failure = k.manager.PrepareResources(ctx, &pods[step.Pod])
	case "unprepare":
		failure = k.manager.UnprepareResources(ctx, &pods[step.Pod])
	case "resources":
		pod := &pods[step.Pod]
		for i := range pod.Spec.Containers {
			container := &pod.Spec.Containers[i]
			info, err := k.manager.GetResources(pod, container)
			if err != nil {
				devices[container.Name] = []string{"error: " + err.Error()}
				continue
			}
			names := []string{}
			for _, device := range info.CDIDevices {
				names = append(names, device.Name)
			}
			slices.Sort(names)
			devices[container.Name] = names
		}
	case "restart":
		k.stop()
		if err := k.start(); err != nil {
			return result{}, err
		}
	case "register":
		k.registered[step.Driver] = true
		failure = k.register(step.Driver)
	case "deregister":
		delete(k.registered, step.Driver)
		k.deregister(step.Driver)
	case "setClaim":
		_ = claims.Delete(ctx, step.Claim.Name, metav1.DeleteOptions{})
		if _, err := claims.Create(ctx, step.Claim, metav1.CreateOptions{}); err != nil {
			return result{}, err
		}
	case "deleteClaim":
		if err := claims.Delete(ctx, step.Claim.Name, metav1.DeleteOptions{}); err != nil {
			return result{}, err
		}
	case "setPod":
		pods[step.Pod] = *step.NewPod
	default:
		return result{}, fmt.Errorf("unknown operation %q", step.Operation)
	}
	checkpoint, err := k.readCheckpoint()
	if err != nil {
		return result{}, err
	}
	found := result{Calls: takeCalls(), Checkpoint: checkpoint, Devices: devices, InUse: []string{}}
	if failure != nil {
		found.Error = failure.Error()
		if known := drivers[step.Driver]; known != nil {
			found.Error = strings.ReplaceAll(found.Error, known.endpoint, "ENDPOINT")
		}
	}
	for _, uid := range listUIDs(pods) {
		if k.manager.PodMightNeedToUnprepareResources(types.UID(uid)) {
			found.InUse = append(found.InUse, uid)
		}
	}
	return found, nil
}

func listUIDs(pods []v1.Pod) []string {
	uids := []string{}
	for _, pod := range pods {
		if !slices.Contains(uids, string(pod.UID)) {
			uids = append(uids, string(pod.UID))
		}
	}
	return uids
}

// readCheckpoint returns the claims in the manager's file.
func (k *kubelet) readCheckpoint() (any, error) {
	text, err := os.ReadFile(filepath.Join(k.folder, stateFile))
	if err != nil {
		return nil, err
	}
	var file struct{ Data string }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	var data struct{ ClaimInfoStateList []any }
	err = json.Unmarshal([]byte(file.Data), &data)
	return data.ClaimInfoStateList, err
}

func (k *kubelet) register(driver string) error {
	found, err := findDriver(driver)
	if err != nil {
		return err
	}
	handler := k.manager.GetWatcherHandler()
	return handler.RegisterPlugin(context.Background(), driver, found.endpoint, []string{service}, nil)
}

func (k *kubelet) deregister(driver string) {
	if found, err := findDriver(driver); err == nil {
		k.manager.GetWatcherHandler().DeRegisterPlugin(context.Background(), driver, found.endpoint)
	}
}
