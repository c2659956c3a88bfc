# SPDX-License-Identifier: GPL-2.0
"""Tests of the Debian package: its builds on a bare machine, and the mounts of that machine."""
