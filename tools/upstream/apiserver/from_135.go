//go:build !k134

package main

import (
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
)

var ruleStatus rest.RESTCreateUpdateStrategy = devicetaintrule.StatusStrategy
