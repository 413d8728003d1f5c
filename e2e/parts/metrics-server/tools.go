//go:build tools

// Package tools names the programs built from this module, so that go.sum covers them.
package tools

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
