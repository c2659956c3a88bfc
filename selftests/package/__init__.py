# SPDX-License-Identifier: GPL-2.0
"""Tests of the Debian package: what it builds on a bare machine, and what that machine mounts with then."""
