// Command gates prints the feature gates of the Kubernetes release that it is built with, as JSON: stage, default, lock
// and dependencies.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logs "k8s.io/component-base/logs/api/v1"
	metrics "k8s.io/component-base/metrics/features"
	controllers "k8s.io/controller-manager/pkg/features"
	_ "k8s.io/kubernetes/pkg/features"
)

type gate struct {
	Stage  string                `json:"stage"`
	On     bool                  `json:"on"`
	Locked bool                  `json:"locked"`
	Needs  []featuregate.Feature `json:"needs"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
}

func run() error {
	gates := utilfeature.DefaultMutableFeatureGate
	// Each service adds these two sets itself. The API server, for one, has both.
	for _, add := range []func(featuregate.MutableVersionedFeatureGate) error{logs.AddFeatureGates, metrics.AddFeatureGates} {
		if err := add(gates); err != nil {
			return err
		}
	}
	if err := controllers.SetupCurrentKubernetesSpecificFeatureGates(gates); err != nil {
		return err
	}
	// Gates of 1.34 do not depend on others.
	var needs map[featuregate.Feature][]featuregate.Feature
	if since135, ok := any(gates).(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		needs = since135.Dependencies()
	}
	found := map[featuregate.Feature]gate{}
	for name, spec := range gates.GetAll() {
		found[name] = gate{string(spec.PreRelease), spec.Default, spec.LockToDefault, needs[name]}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
