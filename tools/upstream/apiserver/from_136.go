//go:build !k134 && !k135

package main

import (
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourcepoolstatusrequest"
)

func claimStrategies(namespaces corev1client.NamespaceInterface, checks checkAuthorizer) (plain, status rest.RESTCreateUpdateStrategy) {
	strategy := resourceclaim.NewStrategy(namespaces, checks.forStrategy())
	return strategy, resourceclaim.NewStatusStrategy(strategy)
}

func laterStrategy(kind string, ofStatus bool) (rest.RESTCreateUpdateStrategy, error) {
	if kind != "ResourcePoolStatusRequest" {
		return nil, unknownKind(kind)
	}
	if ofStatus {
		return resourcepoolstatusrequest.StatusStrategy, nil
	}
	return resourcepoolstatusrequest.Strategy, nil
}
