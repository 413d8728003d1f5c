//go:build tools

// Package tools names the programs built from this module, so that go.sum covers them.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubeadm"
)
