# The front door; CMake does the work. `make help` lists what there is.
PREFIX ?= /usr/local
BUILD := scripts/build

.PHONY: all
all: ## build the library and the CLI: build/weir, build/libweir.so
	$(BUILD) --target installed release
	@ln -sfn release/libweir.so build/libweir.so
	@ln -sfn release/libweir.a build/libweir.a
	@if [ -e build/release/weir ]; then ln -sfn release/weir build/weir; fi

.PHONY: deps
deps: ## install what is missing for building and testing
	@scripts/install-deps

.PHONY: demo
demo: ## install what is missing, build, and show what weir does
	@scripts/install-deps --build
	$(BUILD) --target weir_cli demo
	build/demo/weir demo

.PHONY: test
test: deps ## everything: tests in release, asan and tsan builds, all checks, Python
	@scripts/run-tests release asan tsan check python

.PHONY: test-release test-asan test-tsan
test-release test-asan test-tsan: test-%: ## the tests in one build only
	@scripts/run-tests $*

.PHONY: test-python
test-python: ## the Python tests only
	@scripts/run-tests python

.PHONY: test-models
test-models: ## whole models of transformers and diffusers (installs them)
	$(BUILD) release
	@scripts/test-models

.PHONY: test-cann
test-cann: ## the real torch_npu on weir (installs its wheel)
	$(BUILD) --target installed release
	@scripts/test-cann

.PHONY: check
check: ## includes, exports, clang, format, tidy, outside consumer
	@scripts/run-tests check

.PHONY: python
python: deps ## .venv with weir, NumPy, PyTorch and pytest
	@scripts/build release
	scripts/python-env

.PHONY: wheel-check
wheel-check: deps ## a wheel from an empty virtual environment, used in another one
	scripts/package/check-wheel

.PHONY: python-asan
python-asan: python ## the Python tests against an extension and a library with sanitizers
	scripts/python-asan

.PHONY: deb
deb: ## Debian packages, in build/dist
	@scripts/install-deps --package
	scripts/package/make-deb build/dist

.PHONY: tarball
tarball: ## the installed tree as a tarball that works anywhere, in build/dist
	@scripts/install-deps --package
	scripts/package/make-tarball build/dist

.PHONY: wheel
wheel: ## a wheel for glibc 2.28 and later, and the source distribution, in build/dist
	@scripts/install-deps --package
	scripts/package/make-wheel build/dist

.PHONY: test-packages
test-packages: deb tarball wheel ## install each package in an empty system and use it
	scripts/package/check-packages build/dist

.PHONY: release
release: ## wheel, debs, tarball, docs, SBOM, checksums of TAG, in build/release-TAG
	@scripts/install-deps --package
	@scripts/install-deps --docs
	scripts/release "$(TAG)" "build/release-$(TAG)"

.PHONY: docs
docs: ## the documentation site, in build/docs
	@scripts/install-deps --docs
	scripts/docs/make-docs build/docs

.PHONY: bench
bench: ## measure weir against its peers (installs them)
	@scripts/install-deps --bench
	$(BUILD) bench
	cmake --build build/bench --target run-bench

.PHONY: format
format: ## rewrite the C files as .clang-format says
	@scripts/check-format --fix

.PHONY: install
install: all ## install under PREFIX (default /usr/local)
	cmake --install build/release --prefix "$(PREFIX)"

.PHONY: clean
clean: ## remove build/
	rm -rf build .venv

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][-a-z ]*:.*## / { printf "  make %-34s %s\n", $$1, $$2 }' Makefile
