# SPDX-License-Identifier: GPL-2.0
"""The table of conformance: for each requirement the place that meets it, and the tests that would notice its loss."""
