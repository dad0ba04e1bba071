package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

const service = "v1.DRAPlugin"

// behavior has the answers of a driver to the calls of a step.
type behavior struct {
	// Code and Message are the error of the whole call.
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
	// Claims has answers by the UIDs of claims. Null skips a claim. Others get one device.
	Claims map[string]*claimAnswer `json:"claims"`
	// Unknown is the UID of an answer for a claim that the call does not name.
	Unknown string `json:"unknown"`
}

type claimAnswer struct {
	Error   string   `json:"error"`
	Devices []device `json:"devices"`
}

type device struct {
	Pool     string   `json:"pool"`
	Device   string   `json:"device"`
	ShareID  *string  `json:"shareID"`
	Requests []string `json:"requests"`
	CDI      []string `json:"cdi"`
}

type call struct {
	Driver string      `json:"driver"`
	Method string      `json:"method"`
	Claims []callClaim `json:"claims"`
}

type callClaim struct {
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Name      string `json:"name"`
}

// driver is a DRA driver of any node. It listens as long as the program runs.
type driver struct {
	drapb.UnimplementedDRAPluginServer
	name     string
	endpoint string
}

var (
	mutex     sync.Mutex
	drivers   = map[string]*driver{}
	behaviors map[string]behavior
	calls     = []call{}
)

func behave(next map[string]behavior) {
	mutex.Lock()
	defer mutex.Unlock()
	behaviors = next
}

func takeCalls() []call {
	mutex.Lock()
	defer mutex.Unlock()
	taken := calls
	calls = []call{}
	return taken
}

func findDriver(name string) (*driver, error) {
	if known := drivers[name]; known != nil {
		return known, nil
	}
	folder, err := os.MkdirTemp("", "driver")
	if err != nil {
		return nil, err
	}
	made := &driver{name: name, endpoint: filepath.Join(folder, "dra.sock")}
	listener, err := net.Listen("unix", made.endpoint)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	drapb.RegisterDRAPluginServer(server, made)
	go func() { _ = server.Serve(listener) }()
	drivers[name] = made
	return made, nil
}

// record stores a call, and returns the answers for its claims.
func (d *driver) record(method string, claims []*drapb.Claim) (map[string]claimAnswer, error) {
	mutex.Lock()
	defer mutex.Unlock()
	made := call{Driver: d.name, Method: method, Claims: []callClaim{}}
	for _, claim := range claims {
		made.Claims = append(made.Claims, callClaim{claim.Namespace, claim.Uid, claim.Name})
	}
	calls = append(calls, made)
	next := behaviors[d.name]
	if next.Code != codes.OK {
		return nil, status.Error(next.Code, next.Message)
	}
	answers := map[string]claimAnswer{}
	for _, claim := range claims {
		if answer, ok := next.Claims[claim.Uid]; !ok {
			id := fmt.Sprintf("%s/claim=%s", d.name, claim.Uid)
			answers[claim.Uid] = claimAnswer{Devices: []device{{Pool: "pool", Device: claim.Name, CDI: []string{id}}}}
		} else if answer != nil {
			answers[claim.Uid] = *answer
		}
	}
	if next.Unknown != "" {
		answers[next.Unknown] = claimAnswer{}
	}
	return answers, nil
}

func (d *driver) NodePrepareResources(
	_ context.Context, request *drapb.NodePrepareResourcesRequest,
) (*drapb.NodePrepareResourcesResponse, error) {
	answers, err := d.record("NodePrepareResources", request.Claims)
	if err != nil {
		return nil, err
	}
	response := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for uid, answer := range answers {
		one := &drapb.NodePrepareResourceResponse{Error: answer.Error}
		for _, device := range answer.Devices {
			one.Devices = append(one.Devices, convertDevice(device))
		}
		response.Claims[uid] = one
	}
	return response, nil
}

func (d *driver) NodeUnprepareResources(
	_ context.Context, request *drapb.NodeUnprepareResourcesRequest,
) (*drapb.NodeUnprepareResourcesResponse, error) {
	answers, err := d.record("NodeUnprepareResources", request.Claims)
	if err != nil {
		return nil, err
	}
	response := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for uid, answer := range answers {
		response.Claims[uid] = &drapb.NodeUnprepareResourceResponse{Error: answer.Error}
	}
	return response, nil
}

func convertDevice(given device) *drapb.Device {
	return &drapb.Device{
		PoolName: given.Pool, DeviceName: given.Device, ShareId: given.ShareID,
		RequestNames: given.Requests, CdiDeviceIds: given.CDI,
	}
}
