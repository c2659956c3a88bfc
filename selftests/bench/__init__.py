# SPDX-License-Identifier: GPL-2.0
"""Compares the client transport under test with the in-tree one: the cost of an operation in guest instructions."""
