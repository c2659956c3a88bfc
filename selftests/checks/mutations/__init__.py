# SPDX-License-Identifier: GPL-2.0
"""Defects that the tests have to find."""
