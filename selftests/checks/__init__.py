# SPDX-License-Identifier: GPL-2.0
"""Checks of the sources, and of the tests themselves."""
