//go:build tools

// Package tools names the packages that this module's program uses, so that go.sum covers them.
package tools

import (
	_ "k8s.io/kubernetes/pkg/credentialprovider"
)
