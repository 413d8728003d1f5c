# Two commands matter: `make run` and `make test`. Everything they need, they set up.
# Caches live outside the work tree; removing the folder costs only time.
export FERROLET_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ferrolet
export CARGO_TARGET_DIR := $(FERROLET_CACHE)/target
export PATH := $(FERROLET_CACHE)/tools/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run cluster record test soak bench conformance kubeadm package testbed tools fmt lint

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

run: ## set up and run the sample pod on a containerd of its own
	@e2e/parts/build.sh containerd runc cni
	@e2e/build-images.sh images
	@scripts/run.sh standalone

cluster: ## set up and run a cluster of one node: etcd, API server, controllers, scheduler, ferrolet
	@e2e/parts/build.sh containerd runc cni etcd control-plane
	@e2e/build-images.sh images
	@scripts/run.sh cluster

record: ## run it once more for the picture in the README (needs root)
	@e2e/parts/build.sh containerd runc cni
	@e2e/build-images.sh images
	cargo build --locked --profile quick -p cli -p testbed
	cargo build --locked -p xtask --features picture
	$(CARGO_TARGET_DIR)/debug/xtask picture

test: ## set up, check and test everything (needs root, or asks sudo)
	@scripts/test.sh

soak: ## long tests in parts of at most an hour (PART="NAME…"; all parts by default)
	@scripts/soak.sh $(PART)

bench: ## measure ferrolet and the upstream kubelet side by side, in parts (PART="NAME…" ROUNDS=N)
	@scripts/bench.sh $(PART)

conformance: ## run upstream's end-to-end suite on a node (FOCUS=REGEX SKIP=REGEX AGENT=upstream QUICK=1 PROCS=8)
	@scripts/conformance.sh

kubeadm: ## set up a cluster of two nodes with upstream's kubeadm, and ferrolet as their kubelet
	@scripts/kubeadm.sh

package: ## build what is released: a static program and a Debian package, in dist
	@scripts/package.sh

testbed: ## build the real parts that tests run against (cached)
	@e2e/parts/build.sh
	@e2e/build-images.sh

tools: ## install what checks the dependencies (cached)
	@scripts/setup.sh

fmt: ## format the sources
	cargo fmt --all

lint: ## what the compiler and clippy say
	@bash -c '. scripts/checkout.sh && use_target && cargo clippy --workspace --all-targets --features e2e/soak -- -D warnings'
