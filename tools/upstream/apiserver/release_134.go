//go:build k134

package main

import "k8s.io/apiserver/pkg/registry/rest"

// ruleStatus is nil: DeviceTaintRules have no status in this release.
var ruleStatus rest.RESTCreateUpdateStrategy
