//go:build tools

// Package tools names the packages whose files are copied from this module, so that go.sum covers them.
package tools

import (
	_ "k8s.io/kubelet/pkg/apis/podresources/v1"
	_ "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)
