//go:build k134 || k135

package main

import (
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
)

// claimStrategies ignores the authorizer: these releases don't authorize parts of a claim's status.
func claimStrategies(namespaces corev1client.NamespaceInterface, _ checkAuthorizer) (plain, status rest.RESTCreateUpdateStrategy) {
	strategy := resourceclaim.NewStrategy(namespaces)
	return strategy, resourceclaim.NewStatusStrategy(strategy)
}

func laterStrategy(kind string, _ bool) (rest.RESTCreateUpdateStrategy, error) {
	return nil, unknownKind(kind)
}
