# SPDX-License-Identifier: GPL-2.0
"""Tests that run in a pair of guests."""
