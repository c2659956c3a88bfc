# SPDX-License-Identifier: GPL-2.0
"""Functions that tests in guests share. No test imports another test: what two of them need stands here."""
