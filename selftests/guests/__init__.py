# SPDX-License-Identifier: GPL-2.0
"""Tests in guests: the harness that boots these, the tests, and their tools."""
