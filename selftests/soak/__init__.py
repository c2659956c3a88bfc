# SPDX-License-Identifier: GPL-2.0
"""Races are hunted: a verified load, and at random all that may happen to a mount during it."""
