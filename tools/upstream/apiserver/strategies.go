package main

import (
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
)

func (given *write) strategy(kind string) (rest.RESTCreateUpdateStrategy, error) {
	namespaces := namespaceReader{known: given.Namespaces}
	ofStatus := given.Operation == statusUpdate
	switch kind {
	case "ResourceClaim":
		plain, status := claimStrategies(namespaces, checkAuthorizer(given.Checks))
		if ofStatus {
			return status, nil
		}
		return plain, nil
	case "ResourceClaimTemplate":
		return resourceclaimtemplate.NewStrategy(namespaces), nil
	case "DeviceClass":
		return deviceclass.Strategy, nil
	case "ResourceSlice":
		return resourceslice.Strategy, nil
	case "DeviceTaintRule":
		if ofStatus && ruleStatus != nil {
			return ruleStatus, nil
		}
		return devicetaintrule.Strategy, nil
	}
	return laterStrategy(kind, ofStatus)
}
