//go:build !k134 && !k135 && !k136

package main

import "k8s.io/apiserver/pkg/authorization/authorizer"

func (checks checkAuthorizer) forStrategy() authorizer.UnconditionalAuthorizer { return checks }
