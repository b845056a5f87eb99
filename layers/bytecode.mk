# Included by the layers' Makefiles: which Python a layer is for, and how its bytecode is made.
#
# By default a layer is for Lambda's Python, whatever Python this computer has. LAYER_TARGET=host makes it for the
# Python named by HOST_PYTHON: the emulator runs functions on it.

TEMPLATE := $(dir $(lastword $(MAKEFILE_LIST)))../template.yaml
PYTHON_VERSION := $(shell sed -n 's/^ *Runtime: python//p' $(TEMPLATE))
HOST_PYTHON ?= python3
COMPILER := $(if $(filter host,$(LAYER_TARGET)),$(HOST_PYTHON),python$(PYTHON_VERSION))

# Lambda cannot keep the bytecode that it compiles, so a layer with it starts faster. Only the runtime's own Python
# can make it; without that the layer works all the same. The hash makes it valid whatever a zip does to dates, and
# the paths in it are those on Lambda, so that the same sources make the same layer in any folder.
define COMPILE
	if command -v $(COMPILER) >/dev/null && $(COMPILER) -c '' 2>/dev/null; then \
		$(COMPILER) -m compileall -q --invalidation-mode unchecked-hash -s "$(ARTIFACTS_DIR)" -p /opt \
			"$(ARTIFACTS_DIR)/python"; \
	fi
endef
