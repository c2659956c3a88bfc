# SPDX-License-Identifier: GPL-2.0
"""A client guest under virtme-ng, for people, and the test of it."""
