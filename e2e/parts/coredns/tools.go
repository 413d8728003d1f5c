//go:build tools

// Package tools names the program built from this module, so that go.sum covers it.
package tools

import _ "github.com/coredns/coredns"
